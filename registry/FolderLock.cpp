#include "registry/FolderLock.h"

#include "support/files/FileError.h"

#include <fmt/format.h>

#include <cerrno>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::registry {

Result<FolderLock> FolderLock::take(const std::string &file, LockKind kind,
                                    std::chrono::milliseconds patience) {
  constexpr mode_t kMode = 0666;
  constexpr std::chrono::milliseconds kPause{5};
  FolderLock lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (lock.fd < 0 && kind == LockKind::Shared && (errno == EACCES || errno == EROFS)) {
    lock.fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC); // who only reads can hold gc off too
  }
  if (lock.fd < 0) {
    return writeError(errno, "open", file);
  }
  int operation = (kind == LockKind::Alone ? LOCK_EX : LOCK_SH) | LOCK_NB;
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + patience;
  while (::flock(lock.fd, operation) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return writeError(errno, "lock", file);
    }
    if (std::chrono::steady_clock::now() >= end) {
      return Status::error(
          ErrorId::RegistryBusy, fmt::format("another process has locked '{}'", file),
          kind == LockKind::Alone ? "try again when no gate is running"
                                  : "try again when `tenon registry gc` has finished");
    }
    std::this_thread::sleep_for(kPause);
  }
  return lock;
}

FolderLock::FolderLock(FolderLock &&other) noexcept : fd(std::exchange(other.fd, -1)) {}

bool FolderLock::isOf(const std::string &file) const {
  struct stat held = {}, named = {};
  return ::fstat(fd, &held) == 0 && ::stat(file.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

FolderLock::~FolderLock() {
  if (fd >= 0) {
    ::close(fd);
  }
}

} // namespace tenon::registry
