// Implements the two tables: what a user can do about an errno decides its number.

#include "support/files/FileError.h"

#include "support/text/Text.h"

#include <cerrno>
#include <cstring>

namespace tenon {
namespace {

/// Errors that mean the same for reading and writing; ok for all others.
Status commonError(int error, std::string_view message) {
  switch (error) {
  case EACCES:
  case EPERM:
    return Status::error(ErrorId::FileNotPermitted, message,
                         "change the permissions of the file and its folders, or use another user");
  case EROFS:
    return Status::error(ErrorId::FileNotPermitted, message, "write to another file system");
  case EMFILE:
  case ENFILE:
    return Status::error(ErrorId::TooManyFiles, message,
                         "raise the limit (ulimit -n) or close other programs");
  case ENOMEM:
    return Status::error(ErrorId::OutOfMemory, message, "free memory");
  default:
    return Status::ok();
  }
}

} // namespace

Status openError(int error, const std::string &path) {
  std::string message = strCat("cannot open '", path, "': ", std::strerror(error));
  TENON_TRY(commonError(error, message));
  bool isName = error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
  bool isSocket = error == ENXIO || error == ENODEV;
  return isName     ? Status::error(ErrorId::FileNotFound, message, "check the path")
         : isSocket ? Status::error(ErrorId::FileNotRegular, message, "give the path of a file")
                    : Status::error(ErrorId::FileReadFailed, message,
                                    "check the system's log for disk errors");
}

Status writeError(int error, std::string_view what, const std::string &path) {
  std::string message = strCat("cannot ", what, " '", path, "': ", std::strerror(error));
  TENON_TRY(commonError(error, message));
  bool isFull = error == ENOSPC || error == EDQUOT;
  return Status::error(ErrorId::FileWriteFailed, message,
                       isFull ? "free space, or write elsewhere" : "check the path and its folder");
}

} // namespace tenon
