// How the compiled answer of a model compares with the reference's, and the child process in which
// that is found out: what crashes or hangs costs the child only. Free of MLIR.
#pragma once

#include "support/Status.h"

#include <functional>
#include <string>

namespace tenon::debug {

struct Outcome {
  enum class Kind : uint8_t {
    Same,
    Refused,   ///< Tenon lacks something for the model and says so
    Different, ///< the results differ by more than rounding explains
    Fault,     ///< the compilation ends in an error
    RunError,  ///< the engine gives an error where the reference gives results, or the other way
               ///< round
    Signal,    ///< the process ends
    TooLong,
  };
  Kind kind = Kind::Same;
  ErrorId id = ErrorId::None; ///< of Fault and RunError
  int signal = 0;             ///< of Signal
  std::string text;           ///< one line, for people

  bool isFailure() const { return kind != Kind::Same && kind != Kind::Refused; }
  /// Of one kind, with the same error or signal.
  bool isLike(const Outcome &other) const {
    return kind == other.kind && id == other.id && signal == other.signal;
  }
};

/// "different results", "error TN0742", "signal 11 (Segmentation fault)", ...
std::string describe(const Outcome &outcome);

/// Runs `work` in a child for at most so many seconds. What it wrote into `report` comes back too.
Outcome inChild(double seconds, const std::function<Outcome(std::string &report)> &work,
                std::string *report = nullptr);

} // namespace tenon::debug
