// The child says what it found on a pipe: kind, error, and the lengths of two texts that follow.
#include "tools/debug/Outcome.h"

#include "support/text/Text.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace tenon::debug {
namespace {

struct Header {
  uint8_t kind;
  uint16_t id;
  uint64_t textBytes;
  uint64_t reportBytes;
};

void writeAll(int pipe, const void *from, size_t size) {
  const char *at = static_cast<const char *>(from);
  while (size > 0) {
    ssize_t written = write(pipe, at, size);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      _exit(2);
    }
    at += written;
    size -= static_cast<size_t>(written);
  }
}

[[noreturn]] void work(int pipe, const std::function<Outcome(std::string &)> &task) {
  std::string report;
  Outcome outcome = task(report);
  Header header{static_cast<uint8_t>(outcome.kind), static_cast<uint16_t>(outcome.id),
                outcome.text.size(), report.size()};
  writeAll(pipe, &header, sizeof(header));
  writeAll(pipe, outcome.text.data(), outcome.text.size());
  writeAll(pipe, report.data(), report.size());
  _exit(0);
}

/// What the child wrote until it ended; false if it did not in time.
bool readUntil(int pipe, std::chrono::steady_clock::time_point deadline, std::string &text) {
  using std::chrono::milliseconds;
  while (true) {
    auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    pollfd polled{pipe, POLLIN, 0};
    int ready = left > 0 ? poll(&polled, 1, static_cast<int>(std::min<int64_t>(left, 1000))) : 0;
    if (left <= 0) {
      return false;
    }
    if (ready <= 0) {
      continue;
    }
    char buffer[4096];
    ssize_t got = read(pipe, buffer, sizeof(buffer));
    if (got == 0) {
      return true;
    }
    text.append(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  }
}

} // namespace

std::string describe(const Outcome &outcome) {
  switch (outcome.kind) {
  case Outcome::Kind::Same:
    return "the same results";
  case Outcome::Kind::Refused:
    return "refused";
  case Outcome::Kind::Different:
    return "different results";
  case Outcome::Kind::Fault:
    return strCat("error ", nameOf(outcome.id), " while compiling");
  case Outcome::Kind::RunError:
    return outcome.id == ErrorId::None ? "results although the reference fails"
                                       : strCat("error ", nameOf(outcome.id), " while running");
  case Outcome::Kind::Signal:
    return strCat("signal ", outcome.signal, " (", strsignal(outcome.signal), ")");
  case Outcome::Kind::TooLong:
    return "does not finish in time";
  }
  return "";
}

Outcome inChild(double seconds, const std::function<Outcome(std::string &)> &task,
                std::string *report) {
  auto deadline = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                      std::chrono::duration<double>(seconds));
  int ends[2];
  if (pipe(ends) != 0) {
    return {.kind = Outcome::Kind::Refused, .text = "cannot create a pipe"};
  }
  pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return {.kind = Outcome::Kind::Refused, .text = "cannot start a process"};
  }
  if (child == 0) {
    close(ends[0]);
    work(ends[1], task);
  }
  close(ends[1]);
  std::string text;
  bool inTime = readUntil(ends[0], deadline, text);
  close(ends[0]);
  if (!inTime) {
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!inTime) {
    return {.kind = Outcome::Kind::TooLong,
            .text = strCat("it needs more than ", static_cast<int64_t>(seconds), " s")};
  }
  Header header{};
  if (text.size() >= sizeof(header)) {
    std::memcpy(&header, text.data(), sizeof(header));
  }
  if (text.size() < sizeof(header) ||
      text.size() != sizeof(header) + header.textBytes + header.reportBytes) {
    Outcome ended{.kind = Outcome::Kind::Signal,
                  .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                  .text = {}};
    ended.text = describe(ended);
    return ended;
  }
  if (report) {
    *report = text.substr(sizeof(header) + header.textBytes);
  }
  return {.kind = static_cast<Outcome::Kind>(header.kind),
          .id = static_cast<ErrorId>(header.id),
          .text = text.substr(sizeof(header), header.textBytes)};
}

} // namespace tenon::debug
