// Implements the answer as one line of JSON through a pipe.

#include "tools/tenon/engines/ChildProcess.h"
#include "tools/tenon/print/Format.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace tenon::tool {
namespace {

std::string readAll(int descriptor) {
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(descriptor, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR)) {
    text.append(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  }
  return text;
}

} // namespace

Json describeError(const Status &status) {
  return {{"error", static_cast<int>(status.id())},
          {"message", status.message()},
          {"hint", status.hint()}};
}

Result<Json> inChild(const std::function<Json()> &work, const Status &silence) {
  int ends[2];
  if (pipe(ends) != 0) {
    return Status::error(ErrorId::OutOfMemory, "cannot create a pipe");
  }
  pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return Status::error(ErrorId::OutOfMemory, "cannot start a process");
  }
  if (child == 0) {
    close(ends[0]);
    std::string text = dumpJson(work());
    ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text = readAll(ends[0]);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  Json answer = parseJson(text);
  if (!answer.is_object()) {
    return silence;
  }
  if (answer.contains("error")) {
    return Status::error(static_cast<ErrorId>(answer.value("error", 0)),
                         answer.value("message", ""), answer.value("hint", ""));
  }
  return answer;
}

} // namespace tenon::tool
