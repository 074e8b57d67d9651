// Writes to a file without a name in the target's folder, then fsync, link, rename and fsync of the
// folder. A name is taken only between the last two, when the file is complete.

#include "support/files/AtomicFile.h"

#include "support/files/FileError.h"
#include "support/files/OutputPath.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

/// The system applies the user's mask to it.
constexpr mode_t kMode = 0666;
constexpr int kMaxTries = 100;

std::string nameBeside(const std::string &path) {
  return strCat(path, ".tmp", ::getpid(), '-', std::random_device()());
}

/// Calls `make` with names beside `path` until one is free; false with errno set if it fails.
template <typename Maker>
bool takeFreeName(const std::string &path, std::string &name, Maker make) {
  for (int i = 0; i < kMaxTries; ++i) {
    name = nameBeside(path);
    if (make(name)) {
      return true;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  name.clear();
  return false;
}

/// The path by which a file without a name can be linked.
std::string pathOfDescriptor(int fd) { return strCat("/proc/self/fd/", fd); }

} // namespace

AtomicFile::AtomicFile(std::string finalPath, std::string temporaryPath, int descriptor)
    : path(std::move(finalPath)), temporary(std::move(temporaryPath)), fd(descriptor) {}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : path(std::move(other.path)), temporary(std::exchange(other.temporary, {})),
      fd(std::exchange(other.fd, -1)), end(other.end) {}

AtomicFile &AtomicFile::operator=(AtomicFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(temporary, other.temporary);
  std::swap(fd, other.fd);
  std::swap(end, other.end);
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (fd >= 0) {
    ::close(fd);
    fd = -1;
  }
  if (!temporary.empty()) {
    ::unlink(temporary.c_str());
    temporary.clear();
  }
}

Result<AtomicFile> AtomicFile::create(const std::string &path,
                                      std::span<const std::string> inputs) {
  TENON_ASSIGN(std::string target, resolveOutput(path, inputs));
  int fd = ::open(folderOf(target).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode);
  if (fd >= 0 && ::access(pathOfDescriptor(fd).c_str(), F_OK) == 0) {
    return AtomicFile(std::move(target), {}, fd);
  }
  if (fd >= 0) {
    ::close(fd);
  }
  std::string temporary;
  bool isOpen = takeFreeName(target, temporary, [&](const std::string &name) {
    fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
    return fd >= 0;
  });
  if (!isOpen) {
    return writeError(errno, "create", path);
  }
  return AtomicFile(std::move(target), std::move(temporary), fd);
}

Status AtomicFile::append(Bytes bytes) {
  uint64_t at = end;
  TENON_TRY(write(at, bytes));
  end = at + bytes.size();
  return Status::ok();
}

Status AtomicFile::write(uint64_t offset, Bytes bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count =
        pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return writeError(count < 0 ? errno : ENOSPC, "write", path);
    }
    done += static_cast<size_t>(count);
  }
  return Status::ok();
}

Status AtomicFile::resize(uint64_t size) {
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) {
    return writeError(errno, "extend", path);
  }
  end = size;
  return Status::ok();
}

Status AtomicFile::takeMode() const {
  struct stat replaced = {};
  constexpr mode_t kPermissions = 0777;
  if (::stat(path.c_str(), &replaced) == 0 && fchmod(fd, replaced.st_mode & kPermissions) != 0) {
    return writeError(errno, "set the mode of", path);
  }
  return Status::ok();
}

/// Links a file without a name: straight to its path where that is free, for rename(2) else.
Status AtomicFile::giveName() {
  std::string source = pathOfDescriptor(fd);
  auto link = [&](const std::string &name) {
    return ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link(path)) {
    return Status::ok();
  }
  if (errno != EEXIST || !takeFreeName(path, temporary, link)) {
    return writeError(errno, "create", path);
  }
  return Status::ok();
}

Status AtomicFile::commit() {
  TENON_TRY(takeMode());
  if (fsync(fd) != 0) {
    return writeError(errno, "flush", path);
  }
  if (temporary.empty()) {
    TENON_TRY(giveName());
  }
  if (!temporary.empty() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    return writeError(errno, "rename to", path);
  }
  temporary.clear();
  ::close(std::exchange(fd, -1));
  int folder = ::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    ::close(folder);
  }
  return Status::ok();
}

} // namespace tenon
