// The one way by which verbs talk: results to stdout as text or JSON, notes and progress to stderr.
// It relies on --json, --quiet and --progress having been parsed, and on SIGPIPE being ignored.

#pragma once

#include "support/Status.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/task/TaskListener.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace tenon::tool {

enum class ProgressStyle { None, Line, JsonLines };

/// A caller in the same process, which takes the place of the streams.
struct Listener {
  std::string results;
  /// Told as Terminal::progress is; true ends what is being done. May be null.
  std::function<bool(std::string_view what, double fraction)> progress;
  std::atomic<bool> cancelled = false;
};

class Terminal final : public TaskListener {
public:
  Terminal(bool json, bool quiet, ProgressStyle progress)
      : wantsJson(json), isQuiet(quiet), style(progress) {}
  /// Results go to the listener; notes and errors do not.
  Terminal(bool json, Listener &heard)
      : wantsJson(json), isQuiet(true), style(ProgressStyle::None), listener(&heard) {}
  ~Terminal() override { clearProgress(); }

  bool json() const { return wantsJson; }
  bool quiet() const { return isQuiet; }
  ProgressStyle progressStyle() const { return style; }

  /// A result: stdout, also with --quiet. Control characters of names are escaped.
  void print(std::string_view text);
  /// A part of a result that is seen at once.
  void stream(std::string_view text);
  /// A result in a file format, as it is.
  void printFile(std::string_view contents);
  /// A result as JSON, with "schema": "tenon.<name>/1" as its first key.
  void printJson(std::string_view schema, Json value);
  /// On stderr, not with --quiet.
  void note(std::string_view text) override;
  /// The error with its code, remedy and page: stderr; with --json also as JSON on stdout.
  void printError(const Status &status);

  /// The result is the answer no: it was printed like any other, and the exit code is 1.
  void fail() { verdictCode = Code::CheckFailed; }
  Code verdict() const { return verdictCode; }

  /// Writes out what is buffered; an error where stdout did not take every result.
  Status finish();
  /// Whether stdout is a pipe that nobody reads any more.
  bool lostReader() const;

  void progress(std::string_view what, double fraction) override;
  void clearProgress() override;
  const std::atomic<bool> *cancelFlag() const override {
    return listener ? &listener->cancelled : nullptr;
  }
  /// Whether no caller in the same process waits for what is done.
  bool ownsProcess() const { return listener == nullptr; }

private:
  void writeResult(std::string_view text);

  bool wantsJson;
  bool isQuiet;
  ProgressStyle style;
  Listener *listener = nullptr;
  Code verdictCode = Code::Ok;
  bool lineShown = false;
  int stdoutError = 0; ///< the first errno
  std::string lastText;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

/// Gives the streams that the caller closed to /dev/null, in which writing fails: else the next
/// file that is opened would get the results. Makes a pipe without a reader an error of writing.
void prepareStreams();

} // namespace tenon::tool
