// Relies on openat and fstat: owner and mode are those of the open file, whatever its path becomes.

#include "support/files/PrivateFolder.h"

#include "support/text/Text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

bool isOwn(const struct stat &info) {
  return info.st_uid == ::geteuid() && (info.st_mode & kOthersWrite) == 0;
}

Status unusable(const std::string &path, std::string_view why) {
  return Status::error(ErrorId::FileWriteFailed, strCat("'", path, "' ", why),
                       "set XDG_CACHE_HOME to a folder of your own that others cannot write to");
}

/// Makes the folder and those above it that are missing, for the user only.
void makeFolders(const std::string &path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), 0700);
  }
  ::mkdir(path.c_str(), 0700);
}

} // namespace

Result<PrivateFolder> PrivateFolder::open(const std::string &path) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  int opened = ::open(path.c_str(), flags);
  if (opened < 0 && errno == ENOENT) {
    makeFolders(path);
    opened = ::open(path.c_str(), flags);
  }
  if (opened < 0) {
    return unusable(path, strCat("cannot be created or opened: ", std::strerror(errno)));
  }
  PrivateFolder folder(opened);
  struct stat info = {};
  if (::fstat(opened, &info) != 0 || !isOwn(info)) {
    return unusable(path, "belongs to another user, or others can write to it");
  }
  return folder;
}

PrivateFolder::PrivateFolder(PrivateFolder &&other) noexcept : fd(std::exchange(other.fd, -1)) {}

PrivateFolder &PrivateFolder::operator=(PrivateFolder &&other) noexcept {
  std::swap(fd, other.fd);
  return *this;
}

PrivateFolder::~PrivateFolder() {
  if (fd >= 0) {
    ::close(fd);
  }
}

bool PrivateFolder::isPrivateFile(int descriptor) {
  struct stat info = {};
  return ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && isOwn(info);
}

int PrivateFolder::openEntry(const std::string &name) const {
  // A FIFO or a device would block, and is refused below.
  int entry = ::openat(fd, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (entry >= 0 && !isPrivateFile(entry)) {
    ::close(entry);
    return -1;
  }
  return entry;
}

} // namespace tenon
