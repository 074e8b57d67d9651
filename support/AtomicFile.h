// Writes a file that appears under its name complete or not at all, also when the process is
// interrupted. It relies on rename(2) within one folder.

#pragma once

#include "support/ByteSpan.h"
#include "support/Result.h"

#include <cstdint>
#include <string>

namespace tenon {

/// A temporary file beside its final path; removed on destruction unless committed.
class AtomicFile {
public:
  static Result<AtomicFile> create(const std::string &path);
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  ~AtomicFile();

  /// Appends at the end.
  Status append(Bytes bytes);
  /// Overwrites or extends at `offset`; does not move the end used by append.
  Status write(uint64_t offset, Bytes bytes);
  /// Makes the file `size` long, the new part zero, and appends from there.
  Status resize(uint64_t size);
  uint64_t size() const { return end; }

  /// Flushes to disk and gives the file its name, replacing what was there. Once only.
  Status commit();

private:
  AtomicFile(std::string finalPath, std::string temporaryPath, int descriptor);
  void discard();

  std::string path;
  std::string temporary;
  int fd = -1;
  uint64_t end = 0;
};

} // namespace tenon
