// Follows links by hand where their end does not exist, since realpath(3) needs an existing file.

#include "support/files/OutputPath.h"

#include "support/files/FileError.h"
#include "support/text/Text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon {
namespace {

/// As many as Linux follows.
constexpr int kMaxLinks = 40;

bool isSame(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::string_view kindOf(mode_t mode) {
  return S_ISDIR(mode)                    ? "folder"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "device"
         : S_ISFIFO(mode)                 ? "pipe"
         : S_ISSOCK(mode)                 ? "socket"
                                          : "special file";
}

Status notRegular(const std::string &path, std::string_view what) {
  return Status::error(ErrorId::OutputNotRegular, strCat("the output '", path, "' is ", what),
                       "give the path of a regular file");
}

/// The end of a chain of links that leads to nothing yet, or `path` itself where it is no link.
Result<std::string> followDangling(const std::string &path) {
  std::string target = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::array<char, PATH_MAX> buffer;
    ssize_t length = ::readlink(target.c_str(), buffer.data(), buffer.size());
    if (length < 0) {
      return errno == EINVAL || errno == ENOENT ? Result<std::string>(target)
                                                : writeError(errno, "create", path);
    }
    std::string next(buffer.data(), static_cast<size_t>(length));
    target = next.starts_with('/') ? next : strCat(folderOf(target), '/', next);
  }
  return writeError(ELOOP, "create", path);
}

/// Where a regular file that exists lies.
Result<std::string> realPath(const std::string &path, const struct stat &file) {
  std::unique_ptr<char, void (*)(void *)> real(::realpath(path.c_str(), nullptr), ::free);
  struct stat found = {};
  // Links of /proc can lead to files that have no name any more.
  if (!real || ::stat(real.get(), &found) != 0 || !isSame(found, file)) {
    return notRegular(path, "a file without a name");
  }
  return std::string(real.get());
}

Status checkFolder(const std::string &path, const std::string &target) {
  struct stat folder = {};
  std::string name = folderOf(target);
  if (::stat(name.c_str(), &folder) != 0) {
    return writeError(errno, "create", path);
  }
  if (!S_ISDIR(folder.st_mode)) {
    return writeError(ENOTDIR, "create", path);
  }
  bool isWritable = ::faccessat(AT_FDCWD, name.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  return isWritable ? Status::ok() : writeError(errno, "create", path);
}

Status checkAgainst(const std::string &path, const struct stat &file,
                    std::span<const std::string> inputs) {
  for (const std::string &input : inputs) {
    struct stat other = {};
    if (::stat(input.c_str(), &other) == 0 && isSame(other, file)) {
      return Status::error(
          ErrorId::OutputIsInput,
          strCat("the output '", path, "' is the input '", input, "', which would be lost"),
          "name another file with -o");
    }
  }
  for (int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat other = {};
    if (::fstat(stream, &other) == 0 && isSame(other, file)) {
      return Status::error(
          ErrorId::OutputIsInput,
          strCat("the output '", path,
                 "' is where results or messages are printed; it would overwrite them"),
          "name another file with -o");
    }
  }
  return Status::ok();
}

} // namespace

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

Result<std::string> resolveOutput(const std::string &path, std::span<const std::string> inputs) {
  struct stat file = {};
  std::string target;
  if (::stat(path.c_str(), &file) == 0) {
    if (!S_ISREG(file.st_mode)) {
      return notRegular(path, strCat("a ", kindOf(file.st_mode)));
    }
    TENON_TRY(checkAgainst(path, file, inputs));
    TENON_ASSIGN(target, realPath(path, file));
  } else {
    if (errno != ENOENT || path.empty()) {
      return writeError(errno, "create", path);
    }
    if (path.ends_with('/')) {
      return notRegular(path, "the name of a folder");
    }
    TENON_ASSIGN(target, followDangling(path));
  }
  TENON_TRY(checkFolder(path, target));
  return target;
}

Status checkOutputFolder(const std::string &path) {
  struct stat folder = {};
  if (::stat(path.c_str(), &folder) == 0 && !S_ISDIR(folder.st_mode)) {
    return Status::error(ErrorId::OutputNotRegular,
                         strCat("the output folder '", path, "' is a ",
                                S_ISREG(folder.st_mode) ? "file" : kindOf(folder.st_mode)),
                         "give the path of a folder, existing or new");
  }
  return Status::ok();
}

} // namespace tenon
