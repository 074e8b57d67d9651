// Relies on flock, which the system lets go of when the last process that holds it ends.

#include "support/files/ScratchFolder.h"

#include "support/text/Text.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

/// Longer than it takes to lock a folder that was just made.
constexpr time_t kSettled = 60;

int openFolder(const std::string &path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// Whether the folder is the user's own and its maker is gone.
bool isLeft(int folder) {
  struct stat info = {};
  return ::fstat(folder, &info) == 0 && info.st_uid == ::geteuid() &&
         info.st_mtim.tv_sec + kSettled < ::time(nullptr) &&
         ::flock(folder, LOCK_EX | LOCK_NB) == 0;
}

void removeLeft(const std::string &parent, const std::string &start) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    std::string path = it->path().string();
    if (!it->path().filename().string().starts_with(start)) {
      continue;
    }
    int folder = openFolder(path);
    if (folder >= 0) {
      std::error_code ignored;
      if (isLeft(folder)) {
        fs::remove_all(path, ignored);
      }
      ::close(folder);
    }
  }
}

} // namespace

Result<ScratchFolder> ScratchFolder::create(const std::string &parent, const std::string &name) {
  std::string start = strCat(name, '-');
  removeLeft(parent, start);
  std::string path = strCat(parent, '/', start, "XXXXXX");
  if (!::mkdtemp(path.data())) {
    return Status::error(
        ErrorId::FileWriteFailed,
        strCat("cannot create a folder in '", parent, "': ", std::strerror(errno)),
        "check its permissions and the free space, or set TMPDIR to another folder");
  }
  int folder = openFolder(path);
  if (folder >= 0) {
    // Where folders cannot be locked, leftovers cannot be told and stay.
    ::flock(folder, LOCK_EX | LOCK_NB);
  }
  return ScratchFolder(std::move(path), folder);
}

Result<ScratchFolder> ScratchFolder::create(const std::string &name) {
  std::error_code error;
  fs::path parent = fs::temp_directory_path(error);
  return create(error ? "/tmp" : parent.string(), name);
}

ScratchFolder::ScratchFolder(ScratchFolder &&other) noexcept
    : folder(std::exchange(other.folder, {})), fd(std::exchange(other.fd, -1)) {}

ScratchFolder &ScratchFolder::operator=(ScratchFolder &&other) noexcept {
  std::swap(folder, other.folder);
  std::swap(fd, other.fd);
  return *this;
}

ScratchFolder::~ScratchFolder() {
  if (!folder.empty()) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  if (fd >= 0) {
    ::close(fd);
  }
}

} // namespace tenon
