// Implements it by an anonymous file of memory in the place of the pipe.

#include "tools/tenon/cli/StandardInput.h"

#include "support/text/Text.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::tool {
namespace {

constexpr const char *kPath = "/dev/stdin";

Status failed(const char *what) {
  return Status::error(ErrorId::FileReadFailed,
                       strCat("standard input cannot be ", what, ": ", std::strerror(errno)),
                       "write it to a file and give that");
}

Status writeAll(int file, const char *data, size_t size) {
  while (size > 0) {
    ssize_t done = ::write(file, data, size);
    if (done < 0 && errno != EINTR) {
      return failed("kept");
    }
    data += done > 0 ? done : 0;
    size -= done > 0 ? static_cast<size_t>(done) : 0;
  }
  return Status::ok();
}

Status copyInput(int file) {
  std::array<char, size_t(1) << 16> piece;
  while (true) {
    ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got == 0) {
      return Status::ok();
    }
    if (got < 0 && errno != EINTR) {
      return failed("read");
    }
    TENON_TRY(writeAll(file, piece.data(), got > 0 ? static_cast<size_t>(got) : 0));
  }
}

Status keepInput() {
  struct stat info;
  if (fstat(STDIN_FILENO, &info) == 0 && S_ISREG(info.st_mode)) {
    return Status::ok();
  }
  int file = memfd_create("standard input", MFD_CLOEXEC);
  if (file < 0) {
    return failed("kept");
  }
  Status status = copyInput(file);
  if (status.isOk() && dup2(file, STDIN_FILENO) < 0) {
    status = failed("kept");
  }
  ::close(file);
  return status;
}

} // namespace

Status takeStandardInput(std::vector<std::string> &arguments) {
  bool isTaken = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string &argument = arguments[i];
    std::string_view before = i == 0 ? "" : std::string_view(arguments[i - 1]);
    bool isFile = argument == "-" && before != "-o" && before != "--output";
    bool isInput =
        argument.ends_with("=-") && (before == "--inputs" || argument.starts_with("--inputs="));
    if (isFile || isInput) {
      argument.replace(argument.size() - 1, 1, kPath);
      isTaken = true;
    }
  }
  return isTaken ? keepInput() : Status::ok();
}

} // namespace tenon::tool
