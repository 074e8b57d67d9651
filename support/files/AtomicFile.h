// Writes a file that appears under its name complete or not at all, also when the process is
// interrupted. It relies on rename(2) within one folder, and on files without names (O_TMPFILE), of
// which a killed process leaves nothing; where a file system has none, the file is called *.tmp* at
// first.

#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <span>
#include <string>

namespace tenon {

/// A temporary file in the folder of its final path; gone on destruction unless committed.
class AtomicFile {
public:
  /// Refuses what resolveOutput refuses: devices, folders, and each of `inputs`. Of a symbolic link
  /// the target is written.
  static Result<AtomicFile> create(const std::string &path,
                                   std::span<const std::string> inputs = {});
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
  /// For copies that the system makes; the file's offset is its start until someone moves it.
  int descriptor() const { return fd; }

  /// Flushes to disk and gives the file its name, replacing what was there, whose mode it takes
  /// over. Once only.
  Status commit();

private:
  AtomicFile(std::string finalPath, std::string temporaryPath, int descriptor);
  void discard();
  Status takeMode() const;
  Status giveName();

  std::string path;
  std::string temporary; ///< empty while the file has no name
  int fd = -1;
  uint64_t end = 0;
};

} // namespace tenon
