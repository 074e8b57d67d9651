// Read-only access to files: mapped for what is large and trusted, pread for what must not change
// under the reader. Only regular files are opened.

#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <string>

namespace tenon {

/// An open regular file, read at offsets.
class FileReader {
public:
  static Result<FileReader> open(const std::string &path);
  FileReader(FileReader &&other) noexcept;
  FileReader &operator=(FileReader &&other) noexcept;
  ~FileReader();

  uint64_t size() const { return bytes; }
  int descriptor() const { return fd; }
  const std::string &path() const { return name; }
  /// Fills `out` from `offset`; a short file is an error.
  Status read(uint64_t offset, MutableBytes out) const;

private:
  FileReader(std::string path, int descriptor, uint64_t size);

  std::string name;
  int fd = -1;
  uint64_t bytes = 0;
};

/// A private read-only mapping of a part of a file. It stays valid when the file is closed or
/// unlinked; if someone truncates the file, touching the lost part raises SIGBUS.
class MappedFile {
public:
  /// Maps the whole file.
  static Result<MappedFile> open(const std::string &path);
  /// Maps [offset, offset + size) of an open file; offset is a multiple of the page size.
  static Result<MappedFile> map(const FileReader &file, uint64_t offset, uint64_t size);
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  Bytes bytes() const { return view; }
  /// Starts reading the pages in and enters those that are cached into the page table.
  void populate() const;

private:
  explicit MappedFile(Bytes mapped) : view(mapped) {}

  Bytes view;
};

} // namespace tenon
