// Implements printing of results, errors and progress for all verbs.

#include "tools/tenon/cli/Terminal.h"

#include "support/files/FileError.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace tenon::tool {
namespace {

void writeTo(std::FILE *stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

/// The text in lines of our own, without what would steer a terminal, whichever name brought it.
std::string printable(std::string_view text) { return withoutControls(text, "\n\t"); }

} // namespace

void prepareStreams() {
  std::signal(SIGPIPE, SIG_IGN);
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0) {
      // The lowest free descriptor is this one; without /dev/null nothing can be done.
      (void)::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

void Terminal::writeResult(std::string_view text) {
  if (listener) {
    listener->results += text;
    return;
  }
  errno = 0;
  writeTo(stdout, text);
  if (std::ferror(stdout) && stdoutError == 0) {
    stdoutError = errno;
  }
}

Status Terminal::finish() {
  if (std::fflush(stdout) != 0 && stdoutError == 0) {
    stdoutError = errno;
  }
  return stdoutError == 0 ? Status::ok() : writeError(stdoutError, "write to", "standard output");
}

bool Terminal::lostReader() const { return stdoutError == EPIPE; }

void Terminal::print(std::string_view text) { printFile(printable(text)); }

void Terminal::stream(std::string_view text) {
  clearProgress();
  writeResult(printable(text));
  std::fflush(stdout);
}

void Terminal::printFile(std::string_view contents) {
  clearProgress();
  writeResult(contents);
  if (contents.empty() || contents.back() != '\n') {
    writeResult("\n");
  }
}

void Terminal::printJson(std::string_view schema, Json value) {
  clearProgress();
  writeResult(printable(jsonText(schema, std::move(value))));
}

void Terminal::note(std::string_view text) {
  if (isQuiet) {
    return;
  }
  clearProgress();
  writeTo(stderr, fmt::format("{}\n", printable(text)));
}

void Terminal::printError(const Status &status) {
  clearProgress();
  (void)finish(); // results stand before their error
  std::string name = nameOf(status.id());
  std::string text = fmt::format("error {}: {}\n", name, status.message());
  if (!status.hint().empty()) {
    text += fmt::format("  try: {}\n", status.hint());
  }
  text += fmt::format("  see: tenon help {}\n", name);
  writeTo(stderr, text);
  if (wantsJson) {
    printJson("error", {{"code", name},
                        {"exit", static_cast<int>(status.code())},
                        {"title", titleOf(status.id())},
                        {"message", status.message()},
                        {"hint", status.hint()}});
  }
}

void Terminal::progress(std::string_view what, double fraction) {
  if (listener && listener->progress && listener->progress(what, fraction)) {
    listener->cancelled = true;
  }
  if (style == ProgressStyle::None) {
    return;
  }
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  double seconds = elapsed.count();
  std::string text = fmt::format("{:<10} {:3.0f} %", what, fraction * 100);
  if (style == ProgressStyle::JsonLines) {
    if (text == lastText) {
      return;
    }
    lastText = text;
    Json line = {{"phase", what}, {"fraction", fraction}, {"elapsed_s", seconds}};
    writeTo(stderr, dumpJson(line) + "\n");
    return;
  }
  if (fraction > 0.05 && fraction < 1 && seconds > 1) {
    text += fmt::format("  about {:.0f} s left", seconds / fraction * (1 - fraction));
  }
  if (text != lastText) {
    writeTo(stderr, fmt::format("\r\033[K{}", text));
    std::fflush(stderr);
    lastText = text;
    lineShown = true;
  }
}

void Terminal::clearProgress() {
  if (lineShown) {
    writeTo(stderr, "\r\033[K");
    std::fflush(stderr);
    lineShown = false;
    lastText.clear();
  }
}

} // namespace tenon::tool
