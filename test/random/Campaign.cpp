// fork, and a pipe on which the child says which model it begins and how each ended; alarm(2)
// against hangs.
#include "test/random/Campaign.h"

#include "test/random/Operators.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <poll.h>

namespace tenon::random {
namespace {

using Clock = std::chrono::steady_clock;

/// Models that a child does before it makes room: what they leave behind does not add up.
constexpr uint64_t kBatch = 100;

struct Child {
  pid_t pid = -1;
  int pipe = -1;
  uint64_t next = 0, end = 0; ///< numbers of models
  std::string text;           ///< lines not read yet
};

void say(int pipe, std::string line) {
  line += '\n';
  const char *from = line.data();
  for (size_t left = line.size(); left > 0;) {
    ssize_t written = write(pipe, from, left);
    if (written <= 0) {
      _exit(2);
    }
    from += written;
    left -= static_cast<size_t>(written);
  }
}

std::string oneLine(std::string text) {
  for (char &character : text) {
    character = character == '\n' ? ' ' : character;
  }
  return text.substr(0, 1500);
}

[[noreturn]] void work(const CampaignOptions &options, uint64_t next, uint64_t end, int pipe) {
  OracleOptions oracle = options.oracle;
  oracle.scratchFolder += "/" + std::to_string(getpid());
  std::filesystem::create_directories(oracle.scratchFolder);
  for (uint64_t number = next; number < end; ++number) {
    alarm(options.secondsPerModel);
    uint64_t seed = options.seed + number;
    Model model = makeModel(seed, options.hasRelations);
    std::string names;
    for (const std::string &name : model.operators) {
      names += ' ' + name;
    }
    say(pipe, "o" + names);
    Outcome outcome = checkModel(model, seed, oracle);
    say(pipe, std::string("v") + static_cast<char>('0' + static_cast<int>(outcome.verdict)) +
                  oneLine(outcome.text));
  }
  std::filesystem::remove_all(oracle.scratchFolder);
  _exit(0);
}

class Campaign {
public:
  explicit Campaign(const CampaignOptions &options) : options(options) {}

  CampaignResult run();

private:
  void start(uint64_t next, uint64_t end);
  void readFrom(Child &child);
  void take(Child &child, const std::string &line);
  void ended(Child child);
  bool isOver() const {
    return (options.seconds > 0 && Clock::now() - begun > std::chrono::seconds(options.seconds)) ||
           (options.stopsAtFirst && result.different > 0);
  }
  void report(uint64_t number, const std::string &text);

  const CampaignOptions &options;
  CampaignResult result;
  std::vector<Child> children;
  std::string lastOperators;
  uint64_t next = 0;
  Clock::time_point begun = Clock::now();
};

void Campaign::report(uint64_t number, const std::string &text) {
  ++result.different;
  printf("DIFFERENT seed %llu: %s\n", static_cast<unsigned long long>(options.seed + number),
         text.c_str());
  fflush(stdout);
}

void Campaign::start(uint64_t from, uint64_t end) {
  int ends[2];
  fflush(stdout);
  if (pipe(ends) != 0) {
    return;
  }
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    work(options, from, end, ends[1]);
  }
  close(ends[1]);
  children.push_back({pid, ends[0], from, end, ""});
}

void Campaign::take(Child &child, const std::string &line) {
  if (line[0] == 'o') {
    for (size_t at = 1; at < line.size();) {
      size_t to = std::min(line.find(' ', at + 1), line.size());
      ++result.operators[line.substr(at + 1, to - at - 1)];
      at = to;
    }
    return;
  }
  ++result.models;
  Verdict verdict = static_cast<Verdict>(line[1] - '0');
  result.same += verdict == Verdict::Same;
  result.refused += verdict == Verdict::Refused;
  result.untouched += verdict == Verdict::Untouched;
  if (verdict == Verdict::Different) {
    report(child.next, line.substr(2));
  }
  ++child.next;
}

void Campaign::readFrom(Child &child) {
  char buffer[4096];
  ssize_t got = read(child.pipe, buffer, sizeof(buffer));
  child.text.append(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  for (size_t end; (end = child.text.find('\n')) != std::string::npos;) {
    take(child, child.text.substr(0, end));
    child.text.erase(0, end + 1);
  }
  if (got <= 0) {
    ended(child);
  }
}

/// A child that ended before its last model crashed in the one that it was at.
void Campaign::ended(Child child) {
  int status = 0;
  waitpid(child.pid, &status, 0);
  close(child.pipe);
  std::erase_if(children, [&](const Child &other) { return other.pid == child.pid; });
  std::error_code error;
  std::filesystem::remove_all(options.oracle.scratchFolder + "/" + std::to_string(child.pid),
                              error);
  if (child.next < child.end) {
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ++result.models;
    if (!options.oracle.fault.empty()) {
      ++result.untouched;
    } else {
      uint64_t seed = options.seed + child.next;
      if (!options.oracle.dumpFolder.empty()) {
        dumpModel(makeModel(seed, options.hasRelations), seed, "ends the process",
                  options.oracle.dumpFolder);
      }
      report(child.next, signal == SIGALRM ? "takes too long"
                         : signal          ? std::string("ends by a signal: ") + strsignal(signal)
                                           : "ends with " + std::to_string(WEXITSTATUS(status)));
    }
    if (child.next + 1 < child.end && !isOver()) {
      start(child.next + 1, child.end);
    }
  }
}

CampaignResult Campaign::run() {
  while (true) {
    while (children.size() < options.jobs && next < options.count && !isOver()) {
      uint64_t end = std::min(next + kBatch, options.count);
      start(next, end);
      next = end;
    }
    if (children.empty()) {
      break;
    }
    if (isOver()) {
      for (Child &child : children) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, nullptr, 0);
        close(child.pipe);
      }
      children.clear();
      break;
    }
    std::vector<pollfd> polled;
    for (const Child &child : children) {
      polled.push_back({child.pipe, POLLIN, 0});
    }
    poll(polled.data(), polled.size(), 1000);
    for (size_t i = polled.size(); i-- > 0;) {
      if (polled[i].revents != 0) {
        for (Child &child : std::vector<Child>(children)) {
          if (child.pipe == polled[i].fd) {
            // By its place in the list, which readFrom may change.
            readFrom(*std::find_if(children.begin(), children.end(),
                                   [&](const Child &c) { return c.pid == child.pid; }));
          }
        }
      }
    }
  }
  std::error_code error;
  std::filesystem::remove_all(options.oracle.scratchFolder, error);
  result.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  return result;
}

} // namespace

CampaignResult runCampaign(const CampaignOptions &options) { return Campaign(options).run(); }

} // namespace tenon::random
