// Implements the pool with fork, a pipe for each child's outcome, and alarm(2) against hangs. Engines of
// cases live in memory (/dev/shm).

#include "test/conformance/Pool.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

namespace tenon::conformance {
namespace {

struct Child {
  size_t index = 0;
  int pipe = -1;
};

/// The outcome as text for the pipe: a digit and the reason.
std::string encode(const Outcome &outcome) {
  return fmt::format("{}{}", static_cast<int>(outcome.verdict), outcome.reason);
}

Outcome decode(const std::string &text) {
  return {static_cast<Verdict>(text[0] - '0'), text.substr(1)};
}

[[noreturn]] void runChild(const Case &testCase, const PoolOptions &options, const CaseFunction &function,
                           const std::string &scratchFolder, int out) {
  rlimit noCore = {0, 0};
  setrlimit(RLIMIT_CORE, &noCore);
  int null = open("/dev/null", O_WRONLY);
  dup2(null, STDERR_FILENO);
  alarm(options.secondsPerCase);
  std::string text = encode(function(testCase, scratchFolder)).substr(0, PIPE_BUF);
  ssize_t written = write(out, text.data(), text.size());
  _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

std::string readAll(int descriptor) {
  std::string text;
  char buffer[PIPE_BUF];
  ssize_t got = 0;
  while ((got = read(descriptor, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR)) {
    text.append(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  }
  return text;
}

Outcome judge(int status, const std::string &text) {
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    return {Verdict::Fail, signal == SIGALRM ? "did not end in time"
                                             : fmt::format("crashed: {}", strsignal(signal))};
  }
  return text.empty() ? Outcome{Verdict::Fail, fmt::format("ended with {}", WEXITSTATUS(status))}
                      : decode(text);
}

} // namespace

std::vector<Outcome> runInChildren(const std::vector<Case> &cases, const PoolOptions &options,
                                   const CaseFunction &function,
                                   const std::function<void(size_t done)> &progress) {
  std::vector<Outcome> outcomes(cases.size());
  std::map<pid_t, Child> running;
  std::string base = fmt::format("/dev/shm/tenon-conformance-{}", getpid());
  size_t started = 0;
  size_t done = 0;
  while (done < cases.size()) {
    while (started < cases.size() && running.size() < options.jobs) {
      std::string scratch = fmt::format("{}/{}", base, started);
      std::filesystem::create_directories(scratch);
      int ends[2];
      pid_t pid = pipe(ends) == 0 ? fork() : -1;
      if (pid == 0) {
        close(ends[0]);
        runChild(cases[started], options, function, scratch, ends[1]);
      }
      if (pid < 0) {
        outcomes[started++] = {Verdict::Fail, "no process could be started"};
        ++done;
        continue;
      }
      close(ends[1]);
      running[pid] = {started++, ends[0]};
    }
    int status = 0;
    pid_t pid = wait(&status);
    std::map<pid_t, Child>::iterator child = running.find(pid);
    if (child == running.end()) {
      continue;
    }
    outcomes[child->second.index] = judge(status, readAll(child->second.pipe));
    close(child->second.pipe);
    std::filesystem::remove_all(fmt::format("{}/{}", base, child->second.index));
    running.erase(child);
    progress(++done);
  }
  std::filesystem::remove_all(base);
  return outcomes;
}

} // namespace tenon::conformance
