#include "server/http/PushedFile.h"

#include "support/files/FileError.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace tenon::server {

PushedFile::~PushedFile() {
  if (fd >= 0) {
    ::close(fd);
  }
  --count;
}

Status PushedFile::create() {
  TENON_ASSIGN(folder, ScratchFolder::create("tenon-push"));
  fd = ::open(path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return fd >= 0 ? Status::ok() : writeError(errno, "create", path());
}

Status PushedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return writeError(errno, "write", path());
    }
    bytes.remove_prefix(written > 0 ? static_cast<size_t>(written) : 0);
  }
  return Status::ok();
}

} // namespace tenon::server
