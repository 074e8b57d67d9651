// Writes to a temporary in the target's folder, then fsync, rename and fsync of the folder.

#include "support/AtomicFile.h"

#include "support/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

Status writeError(const std::string &path, const char *what) {
  return Status::error(ErrorId::FileWriteFailed,
                       strCat("cannot ", what, " '", path, "': ", std::strerror(errno)),
                       "check the folder, its permissions and the free space");
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

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

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  std::string temporary = path + ".tmpXXXXXX";
  int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) {
    return writeError(path, "create");
  }
  return AtomicFile(path, std::move(temporary), fd);
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
      return writeError(path, "write");
    }
    done += static_cast<size_t>(count);
  }
  return Status::ok();
}

Status AtomicFile::resize(uint64_t size) {
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) {
    return writeError(path, "extend");
  }
  end = size;
  return Status::ok();
}

Status AtomicFile::commit() {
  // mkostemp gives mode 0600; a result is readable like any file the user creates.
  mode_t mask = ::umask(0);
  ::umask(mask);
  if (fchmod(fd, 0666 & ~mask) != 0 || fsync(fd) != 0) {
    return writeError(path, "flush");
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return writeError(path, "rename to");
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
