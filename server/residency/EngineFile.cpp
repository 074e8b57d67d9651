// A file that was written to is told by its size and its time.

#include "server/residency/EngineFile.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include <fcntl.h>

namespace tenon::server {

Status EngineFile::open(const std::string &path) {
  if (file.isOpen()) {
    struct stat now = {};
    bool isSame = fstat(file.get(), &now) == 0 && now.st_size == info.st_size &&
                  now.st_mtim.tv_sec == info.st_mtim.tv_sec &&
                  now.st_mtim.tv_nsec == info.st_mtim.tv_nsec;
    return isSame
               ? Status::ok()
               : Status::error(ErrorId::FileReadFailed,
                               fmt::format("the engine '{}' has changed since it was loaded", path),
                               "load the model again");
  }
  file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.isOpen() && fstat(file.get(), &info) == 0) {
    return Status::ok();
  }
  if (errno == EMFILE || errno == ENFILE) {
    return Status::error(ErrorId::TooManyFiles, "no file descriptors are left for a model's engine",
                         "raise the limit with `ulimit -n`");
  }
  return Status::error(ErrorId::FileNotFound,
                       fmt::format("the engine '{}' cannot be opened: {}", path,
                                   std::generic_category().message(errno)),
                       "fix the cause, then load the model again");
}

void EngineFile::take(Descriptor opened) {
  file = std::move(opened);
  fstat(file.get(), &info);
}

} // namespace tenon::server
