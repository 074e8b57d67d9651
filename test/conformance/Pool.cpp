// Implements the pool with fork, a pipe for each child's outcome, and alarm(2) against hangs.
// Engines of cases live in memory (/dev/shm).

#include "test/conformance/Pool.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>

namespace tenon::conformance {
namespace {

using Clock = std::chrono::steady_clock;

/// Cases that a child does.
struct Share {
  size_t first = 0;
  size_t count = 0;
};

struct Child {
  Share share;
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
                           const CaseFunction &function, const std::string &scratchFolder, int out,
                           Clock::time_point end) {
  rlimit noCore = {0, 0};
  setrlimit(RLIMIT_CORE, &noCore);
  int null = open("/dev/null", O_WRONLY);
  dup2(null, STDERR_FILENO);
  bool isWritten = true;
  for (const Case &one : cases) {
    if (Clock::now() >= end) {
      break;
    }
    alarm(options.secondsPerCase);
    Outcome outcome = function(one, scratchFolder);
    std::string text = encode(outcome);
    isWritten &= write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (outcome.verdict == Verdict::Fail) {
      break; // what it did to this process, a GPU's context say, is not the next one's fault
    }
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

/// Takes the outcomes of a child's cases from what it wrote: how many there are. The case after
/// those that it told is what ended it, unless it stopped at a failure or for want of time.
size_t takeOutcomes(std::span<Outcome> outcomes, std::string_view text, int status, bool isOver) {
  size_t told = 0;
  for (size_t end = text.find('\0'); told < outcomes.size() && end != std::string_view::npos;
       end = text.find('\0')) {
    outcomes[told++] = decode(std::string(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  bool isStopped = (told != 0 && outcomes[told - 1].verdict == Verdict::Fail) ||
                   (isOver && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (told < outcomes.size() && !isStopped) {
    outcomes[told++] = judge(status);
  }
  return told;
}

} // namespace

std::vector<Outcome> runInChildren(const std::vector<Case> &cases, const PoolOptions &options,
                                   const CaseFunction &function,
                                   const std::function<void(size_t done)> &progress) {
  std::vector<Outcome> outcomes(cases.size());
  std::map<pid_t, Child> running;
  std::string base = fmt::format("/dev/shm/tenon-conformance-{}", getpid());
  std::deque<Share> waiting;
  for (size_t first = 0; first < cases.size(); first += options.batch) {
    waiting.push_back({first, std::min(options.batch, cases.size() - first)});
  }
  Clock::time_point end = options.seconds ? Clock::now() + std::chrono::seconds(options.seconds)
                                          : Clock::time_point::max();
  size_t done = 0;
  auto giveUp = [&](const Share &share, const Outcome &outcome) {
    std::fill_n(outcomes.begin() + static_cast<ptrdiff_t>(share.first), share.count, outcome);
    done += share.count;
  };
  while (done < cases.size()) {
    while (!waiting.empty() && running.size() < options.jobs) {
      Share share = waiting.front();
      waiting.pop_front();
      if (Clock::now() >= end) {
        giveUp(share, {Verdict::NotRun, "the time was over"});
        continue;
      }
      std::string scratch = fmt::format("{}/{}", base, share.first);
      std::filesystem::create_directories(scratch);
      int ends[2];
      pid_t pid = pipe(ends) == 0 ? fork() : -1;
      if (pid == 0) {
        close(ends[0]);
        runChild(std::span(cases).subspan(share.first, share.count), options, function, scratch,
                 ends[1], end);
      }
      if (pid < 0) {
        giveUp(share, {Verdict::Fail, "no process could be started"});
        continue;
      }
      close(ends[1]);
      running[pid] = {share, ends[0]};
    }
    if (running.empty()) {
      continue;
    }
    int status = 0;
    pid_t pid = wait(&status);
    std::map<pid_t, Child>::iterator found = running.find(pid);
    if (found == running.end()) {
      continue;
    }
    const Child &child = found->second;
    Share share = child.share;
    size_t taken = takeOutcomes(std::span(outcomes).subspan(share.first, share.count),
                                readAll(child.pipe), status, Clock::now() >= end);
    close(child.pipe);
    std::filesystem::remove_all(fmt::format("{}/{}", base, share.first));
    done += taken;
    if (taken < share.count) {
      waiting.push_back({share.first + taken, share.count - taken});
    }
    running.erase(found);
    progress(done);
  }
  std::filesystem::remove_all(base);
  return outcomes;
}

} // namespace tenon::conformance
