// Runs cases in child processes, some at a time, so that a crash or a hang costs one case only.

#pragma once

#include "test/conformance/Case.h"

#include <functional>
#include <vector>

namespace tenon::conformance {

struct PoolOptions {
  unsigned jobs = 2;
  unsigned secondsPerCase = 120;
  /// Cases that a child does one after the other, since to start one takes more than most cases
  /// do. When one of them fails or ends the child, another child goes on behind it. What sixteen
  /// say fits into a pipe.
  size_t batch = 16;
  /// No case is begun after so many seconds in all; 0 for as long as it takes.
  unsigned seconds = 0;
};

/// What a child does for a case. It may crash.
using CaseFunction = std::function<Outcome(const Case &testCase, const std::string &scratchFolder)>;

/// Outcomes in the order of the cases. The caller has started no thread.
std::vector<Outcome> runInChildren(const std::vector<Case> &cases, const PoolOptions &options,
                                   const CaseFunction &function,
                                   const std::function<void(size_t done)> &progress);

} // namespace tenon::conformance
