// A folder of the user's own that nobody else can write to, held open: what is in it is reached
// through the descriptor, so that renaming the folder or its parents changes nothing.

#pragma once

#include "support/Result.h"

#include <string>

namespace tenon {

class PrivateFolder {
public:
  /// Makes the folder (and its parents) if it is not there. Refused (TN0103) when it cannot be made
  /// or opened, belongs to another user, or group or others may write to it.
  static Result<PrivateFolder> open(const std::string &path);
  PrivateFolder(PrivateFolder &&other) noexcept;
  PrivateFolder &operator=(PrivateFolder &&other) noexcept;
  ~PrivateFolder();

  int descriptor() const { return fd; }
  /// Opens an entry for reading: a regular file of the user's own that nobody else can write to,
  /// and no link. -1 for any other, or when there is none.
  int openEntry(const std::string &name) const;
  /// The same for an open file, by its descriptor.
  static bool isPrivateFile(int descriptor);

private:
  explicit PrivateFolder(int descriptor) : fd(descriptor) {}

  int fd = -1;
};

} // namespace tenon
