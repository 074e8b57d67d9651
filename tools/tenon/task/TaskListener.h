// Who is told how a long task goes, and says whether it has to end: measuring, compiling,
// calibrating and searching talk to this and know no terminal.

#pragma once

#include <atomic>
#include <functional>
#include <string_view>

namespace tenon::tool {

/// This one hears nothing and lets every task end by itself. A listener outlives the task that it
/// is given to. It is called by one thread at a time; only the flag of cancelFlag may be set by
/// another. A task that works in a process of its own calls a copy there.
class TaskListener {
public:
  virtual ~TaskListener() = default;

  /// Something worth knowing that is not the result.
  virtual void note(std::string_view) {}
  /// `fraction` of `what` is done (0 to 1).
  virtual void progress(std::string_view /*what*/, double /*fraction*/) {}
  /// What was begun last is over.
  virtual void clearProgress() {}
  /// Set when the task has to end; null where nobody can ask for that.
  virtual const std::atomic<bool> *cancelFlag() const { return nullptr; }

  /// `note` as a function, for what knows no listener either.
  std::function<void(std::string_view)> notice() {
    return [this](std::string_view text) { note(text); };
  }
};

} // namespace tenon::tool
