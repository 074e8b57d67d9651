// Measures kernels by successive halving: all candidates in turn, the slower half drops out after
// each stage, and who is left runs twice as often. Rounds that others disturbed do not count.

#pragma once

#include "compiler/pipeline/KernelTuning.h"
#include "compiler/tuning/Record.h"
#include "support/Result.h"
#include "tools/tenon/bench/Subject.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::tool {

struct MeasureOptions {
  /// Bytes of other data that are read between two runs, as other regions of the model would do; 0
  /// where all of the model stays in the caches.
  uint64_t otherBytes = 0;
  /// Disturbed rounds count too.
  bool allowNoise = false;
  BenchClock::time_point deadline = BenchClock::time_point::max();
  const std::atomic<bool> *cancel = nullptr; ///< may be null
};

enum class MeasureEnd { Decided, TimeOver, Disturbed };

struct MeasureOutcome {
  MeasureEnd end = MeasureEnd::Decided;
  std::vector<tuning::Trial> trials; ///< of every candidate that ran
  std::string winner;                ///< the first candidate unless another is faster beyond noise
  size_t rounds = 0, disturbed = 0;  ///< that count, and that do not
  std::vector<std::string>
      refused; ///< candidates that did not run, or computed something else, and why
};

/// Of engines with one region each; the first is the kernel that is used without tuning. An error
/// where that one does not run.
Result<MeasureOutcome> measureCandidates(const std::vector<pipeline::EngineCandidate> &candidates,
                                         const MeasureOptions &options);

} // namespace tenon::tool
