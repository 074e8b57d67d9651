// Implements question and answer as texts through pipes. An answer ends where its writer closes it,
// a question with a zero: later copies keep the pipes of earlier ones open.

#include "tools/tenon/engines/ChildProcess.h"
#include "tools/tenon/print/Format.h"

#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

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

/// The text up to the zero, or what comes before the pipe ends.
std::string readQuestion(int descriptor, bool &isWhole) {
  std::string text;
  char next = 0;
  ssize_t got = 0;
  while ((got = read(descriptor, &next, 1)) == 1 || (got < 0 && errno == EINTR)) {
    if (got == 1 && next == 0) {
      isWhole = true;
      return text;
    }
    text.append(&next, got > 0 ? 1 : 0);
  }
  return text;
}

bool writeAll(int descriptor, const std::string &text) {
  return write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

void closeOnce(int &descriptor) {
  if (descriptor >= 0) {
    close(descriptor);
  }
  descriptor = -1;
}

} // namespace

Json describeError(const Status &status) {
  return {{"error", static_cast<int>(status.id())},
          {"message", status.message()},
          {"hint", status.hint()}};
}

Result<Child> Child::start(const Work &work) {
  int questions[2], answers[2];
  if (pipe(questions) != 0) {
    return Status::error(ErrorId::OutOfMemory, "cannot create a pipe");
  }
  if (pipe(answers) != 0) {
    close(questions[0]);
    close(questions[1]);
    return Status::error(ErrorId::OutOfMemory, "cannot create a pipe");
  }
  pid_t child = fork();
  if (child == 0) {
    close(questions[1]);
    close(answers[0]);
    bool isAsked = false;
    std::string question = readQuestion(questions[0], isAsked);
    _exit(!isAsked || writeAll(answers[1], dumpJson(work(question))) ? 0 : 1);
  }
  close(questions[0]);
  close(answers[1]);
  Child made(child, questions[1], answers[0]);
  return child < 0 ? Result<Child>(Status::error(ErrorId::OutOfMemory, "cannot start a process"))
                   : Result<Child>(std::move(made));
}

Child::Child(Child &&other) noexcept
    : process(std::exchange(other.process, -1)), question(std::exchange(other.question, -1)),
      answer(std::exchange(other.answer, -1)) {}

Child::~Child() {
  closeOnce(question);
  closeOnce(answer);
  if (process > 0) {
    waitpid(process, nullptr, 0);
  }
}

Result<Json> Child::ask(const std::string &text, const Status &silence) {
  // A copy that has ended answers nothing, which says the same as a question that it cannot read.
  (void)writeAll(question, std::string(text.c_str(), text.size() + 1));
  closeOnce(question);
  Json said = parseJson(readAll(answer));
  closeOnce(answer);
  int how = 0;
  waitpid(std::exchange(process, -1), &how, 0);
  if (!said.is_object()) {
    return WIFSIGNALED(how)
               ? Status::error(silence.id(),
                               fmt::format("{}: {}", silence.message(), strsignal(WTERMSIG(how))),
                               std::string(silence.hint()))
               : silence;
  }
  if (said.contains("error")) {
    return Status::error(static_cast<ErrorId>(said.value("error", 0)), said.value("message", ""),
                         said.value("hint", ""));
  }
  return said;
}

Result<Json> inChild(const std::function<Json()> &work, const Status &silence) {
  TENON_ASSIGN(Child child, Child::start([&](const std::string &) { return work(); }));
  return child.ask("", silence);
}

} // namespace tenon::tool
