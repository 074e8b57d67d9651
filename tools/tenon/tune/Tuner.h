// `tenon tune`: the kernels of a model are measured, problem by problem, and the store learns which
// is the fastest.

#pragma once

#include "compiler/pipeline/KernelTuning.h"
#include "support/json/Json.h"
#include "tools/tenon/bench/SuccessiveHalving.h"
#include "tools/tenon/model/CompilerBridge.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::tool {

class TaskListener;

struct TuneRequest {
  pipeline::CompileOptions compile; ///< of a model, for CPU levels or for GPUs, of which this
                                    ///< machine runs one; `tuned` is ignored
  std::string store;                ///< a folder
  double seconds = 60; ///< for measurements; what is compiled before and after comes on top
  bool measuresAgain = false;
  bool allowNoise = false;
};

enum class ProblemState {
  Measured,  ///< now
  Known,     ///< to the store already
  Undecided, ///< the machine was too busy
  Left,      ///< the time was over
  Skipped,   ///< one kernel alone computes it
  TooShort,  ///< what it takes of a run is less than what a race sees
  FreeSizes, ///< its sizes are none of the engine's
};

/// Regions of the model that are computed alike.
struct TunedProblem {
  std::vector<std::string> labels;
  ProblemState state = ProblemState::Left;
  std::string why;    ///< of those that were skipped or are undecided
  double seconds = 0; ///< of all its regions in a run of the untuned engine
  std::string kernel, untuned;
  double microseconds = 0, untunedMicroseconds = 0; ///< of one region, by measurements; 0 without
  size_t raced = 0, rounds = 0, disturbed = 0;
  std::vector<std::string>
      refused; ///< kernels that did not run, or computed something else, and why

  bool isTuned() const { return !kernel.empty() && kernel != untuned; }
  double gain() const { return isTuned() ? untunedMicroseconds / microseconds : 1; }
};

/// The tuned engine beside the untuned one.
struct WholeGain {
  double untunedSeconds = 0, tunedSeconds = 0; ///< medians of a run
  double ratio = 1, low = 1,
         high = 1;          ///< how many times as fast, of medians, with its 95 % interval
  bool isWithdrawn = false; ///< slower beyond noise: the untuned kernels are used
};

struct TuneResult {
  /// How many times as fast a run is by the races alone; 1 where they changed nothing.
  double predictedRatio() const { return best.empty() ? 1 : runSeconds / best.back().second; }

  std::vector<TunedProblem> problems; ///< longest first
  std::optional<WholeGain> whole;     ///< none where no kernel changed
  std::vector<std::pair<double, double>>
      best; ///< seconds since the start, and predicted seconds of a run then
  double runSeconds =
      0; ///< of the untuned engine: what the times of all problems and copies add to
  double tuneSeconds = 0; ///< of the measurements
  std::string device, level, engine;
  uint64_t threads = 1;
};

/// Writes the engine of `compile.output`, if one is named. TN0142 where nothing can be tuned,
/// TN0143 where the machine was too busy for all that was measured, TN0141 where another process
/// writes the store.
Result<TuneResult> tuneModel(const TuneRequest &request, TaskListener &listener);

/// For people, and for programs (docs/guides/tune.md).
std::string tuneText(const TuneResult &result);
Json describeTuning(const TuneResult &result);

} // namespace tenon::tool
