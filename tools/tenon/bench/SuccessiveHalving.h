// Measures kernels by successive halving: all candidates in turn, the slower half drops out after
// each stage, and who is left runs twice as often. Rounds that others disturbed do not count.

#pragma once

#include "compiler/pipeline/KernelTuning.h"
#include "support/Result.h"
#include "tools/tenon/bench/Subject.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct MeasureOptions {
  uint64_t seed = 0; ///< of the inputs
  runtime::SessionOptions session;
  /// Bytes of other data that are read between two runs, as other regions of the model would do; 0
  /// where all of the model stays in the caches. Inputs stay there.
  uint64_t otherBytes = 0;
  /// On a GPU: no operand is in the caches.
  bool isCold = false;
  /// All engines are loaded at the same time, each by a thread: a GPU's driver may compile them.
  bool loadsTogether = false;
  /// Disturbed rounds count too.
  bool allowNoise = false;
  /// Kernels of one region differ by roundings; what differs more from the first one computes
  /// something else, and is not timed. None for what roundings of a GPU's kernels can make.
  std::optional<double> maxDifference = 0.05;
  size_t minRounds = 0; ///< of each stage
  BenchClock::time_point deadline = BenchClock::time_point::max();
  const std::atomic<bool> *cancel = nullptr; ///< may be null
};

enum class MeasureEnd { Decided, TimeOver, Disturbed };

struct MeasuredKernel {
  std::string kernel;
  double predicted = 0;    ///< microseconds
  Status status;           ///< why it did not compile or run, or is not timed
  double microseconds = 0; ///< the least of its rounds; 0 where none counts
  /// The largest one of an output from that of the first kernel that runs, as a part of the largest
  /// element there.
  double difference = 0;
};

struct MeasureOutcome {
  MeasureEnd end = MeasureEnd::Decided;
  std::vector<MeasuredKernel> kernels; ///< the candidates, in order
  std::string winner;               ///< the first that runs unless another is faster beyond noise
  size_t rounds = 0, disturbed = 0; ///< that count, and that do not
};

/// Of engines with one region each; the first is the kernel that is used without tuning.
Result<MeasureOutcome> measureCandidates(const std::vector<pipeline::EngineCandidate> &candidates,
                                         const MeasureOptions &options);

} // namespace tenon::tool
