// A lock on a registry across processes: those that add files share it, the one that deletes files
// has it alone. It goes with the process that holds it.

#pragma once

#include "registry/Database.h"
#include "support/Result.h"

#include <chrono>
#include <string>

namespace tenon::registry {

class FolderLock {
public:
  /// Waits at most so long; TN1002 then.
  static Result<FolderLock> take(const std::string &file, LockKind kind,
                                 std::chrono::milliseconds patience);
  FolderLock(FolderLock &&other) noexcept;
  FolderLock &operator=(FolderLock &&) = delete;
  ~FolderLock();
  /// Whether it is the file of that name still, not one that was removed or renamed meanwhile.
  bool isOf(const std::string &file) const;

private:
  explicit FolderLock(int descriptor) : fd(descriptor) {}
  int fd;
};

} // namespace tenon::registry
