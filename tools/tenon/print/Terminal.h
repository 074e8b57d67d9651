// The one way by which verbs talk: results to stdout as text or JSON, notes and progress to stderr.
// It relies on --json, --quiet and --progress having been parsed, and on SIGPIPE being ignored.

#pragma once

#include "support/Status.h"
#include "support/json/Json.h"
#include "tenon/graph.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

enum class ProgressStyle { None, Line, JsonLines };

/// A caller in the same process, which takes the place of the streams.
struct Listener {
  std::string results;
  /// Told as Terminal::progress is; true ends what is being done. May be null.
  std::function<bool(std::string_view what, double fraction)> progress;
  std::atomic<bool> cancelled = false;
  /// Passes that compilations run besides those of plug-ins.
  std::vector<tenon_pass> passes;
};

class Terminal {
public:
  Terminal(bool json, bool quiet, ProgressStyle progress)
      : wantsJson(json), isQuiet(quiet), style(progress) {}
  /// Results go to the listener; notes and errors do not.
  Terminal(bool json, Listener &heard)
      : wantsJson(json), isQuiet(true), style(ProgressStyle::None), listener(&heard) {}
  ~Terminal() { clearProgress(); }

  bool json() const { return wantsJson; }
  bool quiet() const { return isQuiet; }
  ProgressStyle progressStyle() const { return style; }

  /// A result: stdout, also with --quiet. Control characters of names are escaped.
  void print(std::string_view text);
  /// A result in a file format, as it is.
  void printFile(std::string_view contents);
  /// A result as JSON, with "schema": "tenon.<name>/1" as its first key.
  void printJson(std::string_view schema, Json value);
  /// Something worth knowing that is not the result: stderr, not with --quiet.
  void note(std::string_view text);
  /// The same as a function, for what knows no terminal.
  std::function<void(std::string_view)> notice() {
    return [this](std::string_view text) { note(text); };
  }
  /// The error with its code, remedy and page: stderr; with --json also as JSON on stdout.
  void printError(const Status &status);

  /// The result is the answer no: it was printed like any other, and the exit code is 1.
  void fail() { verdictCode = Code::CheckFailed; }
  Code verdict() const { return verdictCode; }

  /// Writes out what is buffered; an error where stdout did not take every result.
  Status finish();
  /// Whether stdout is a pipe that nobody reads any more.
  bool lostReader() const;

  /// `fraction` of `what` is done (0 to 1).
  void progress(std::string_view what, double fraction);
  void clearProgress();
  /// Set when what is being done has to end; null where nobody can ask for that.
  const std::atomic<bool> *cancelFlag() const { return listener ? &listener->cancelled : nullptr; }
  /// Whether no caller in the same process waits for what is done.
  bool ownsProcess() const { return listener == nullptr; }
  /// Passes of a caller in the same process.
  std::vector<tenon_pass> passes() const {
    return listener ? listener->passes : std::vector<tenon_pass>();
  }

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

/// "12.3 MiB".
std::string formatBytes(uint64_t bytes);
/// What printJson prints.
std::string jsonText(std::string_view schema, Json value);

} // namespace tenon::tool
