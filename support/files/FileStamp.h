// What tells that a file is still the one that was seen: a file that was written to, or replaced,
// has another stamp.

#pragma once

#include <cstdint>
#include <string>

namespace tenon {

struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t changed = 0; ///< time of the last write, in nanoseconds

  /// Of the file that a path leads to; all zero when there is none.
  static FileStamp of(const std::string &path);
  static FileStamp of(int descriptor);
  bool operator==(const FileStamp &) const = default;
  std::string text() const;
};

} // namespace tenon
