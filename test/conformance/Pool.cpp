// Implements the pool with fork, a pipe for each child's outcome, and alarm(2) against hangs. Engines of
// cases live in memory (/dev/shm).

#include "test/conformance/Pool.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>

namespace tenon::conformance {
namespace {

struct Child {
  size_t first = 0;
  size_t count = 0;
  int pipe = -1;
};

/// The outcome as text for the pipe: a digit, the reason and a zero.
std::string encode(const Outcome &outcome) {
  std::string text = fmt::format("{}{}", static_cast<int>(outcome.verdict), outcome.reason);
  return text.substr(0, PIPE_BUF - 1) + '\0';
}

Outcome decode(const std::string &text) {
  return {static_cast<Verdict>(text[0] - '0'), text.substr(1)};
}

[[noreturn]] void runChild(std::span<const Case> cases, const PoolOptions &options,
                           const CaseFunction &function, const std::string &scratchFolder, int out) {
  rlimit noCore = {0, 0};
  setrlimit(RLIMIT_CORE, &noCore);
  int null = open("/dev/null", O_WRONLY);
  dup2(null, STDERR_FILENO);
  bool isWritten = true;
  for (const Case &one : cases) {
    alarm(options.secondsPerCase);
    std::string text = encode(function(one, scratchFolder));
    isWritten &= write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  // As a program ends, for sanitizers that report then; its outcomes are told already.
  std::exit(isWritten ? 0 : 1);
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

/// What became of a case that gave no outcome.
Outcome judge(int status) {
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    return {Verdict::Fail, signal == SIGALRM ? "did not end in time"
                                             : fmt::format("crashed: {}", strsignal(signal))};
  }
  return {Verdict::Fail, fmt::format("ended with {}", WEXITSTATUS(status))};
}

/// Takes the outcomes of a child's cases from what it wrote.
void takeOutcomes(std::span<Outcome> outcomes, std::string_view text, int status) {
  for (Outcome &outcome : outcomes) {
    size_t end = text.find('\0');
    outcome = end == std::string_view::npos ? judge(status) : decode(std::string(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
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
      size_t count = std::min(options.batch, cases.size() - started);
      std::filesystem::create_directories(scratch);
      int ends[2];
      pid_t pid = pipe(ends) == 0 ? fork() : -1;
      if (pid == 0) {
        close(ends[0]);
        runChild(std::span(cases).subspan(started, count), options, function, scratch, ends[1]);
      }
      if (pid < 0) {
        outcomes[started++] = {Verdict::Fail, "no process could be started"};
        ++done;
        continue;
      }
      close(ends[1]);
      running[pid] = {started, count, ends[0]};
      started += count;
    }
    int status = 0;
    pid_t pid = wait(&status);
    std::map<pid_t, Child>::iterator found = running.find(pid);
    if (found == running.end()) {
      continue;
    }
    const Child &child = found->second;
    takeOutcomes(std::span(outcomes).subspan(child.first, child.count), readAll(child.pipe), status);
    close(child.pipe);
    std::filesystem::remove_all(fmt::format("{}/{}", base, child.first));
    done += child.count;
    running.erase(found);
    progress(done);
  }
  std::filesystem::remove_all(base);
  return outcomes;
}

} // namespace tenon::conformance
