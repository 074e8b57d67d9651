// The times of a profile: whole runs beside runs whose steps are timed, and the experiments that
// tell apart what holds a step back.

#pragma once

#include "tools/tenon/bench/Runner.h"
#include "tools/tenon/task/TaskListener.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

/// A step of the plan. Seconds are means over the passes that count, but for the median over these.
struct StepFigures {
  uint32_t instruction = 0;
  double seconds = 0;
  double medianSeconds = 0;
  double busySeconds = 0; ///< of all threads together inside of the kernel; on a CPU
  double flops = 0;
  double bytes = 0;
  // Experiments, where they were made.
  std::optional<double> oneThreadSeconds; ///< by one thread
  std::optional<double> inARowSeconds;    ///< with its operands in caches: repeated at once
};

struct Measurement {
  std::vector<StepFigures> steps;
  double runSeconds = 0;    ///< of a run whose steps are not timed
  double timedSeconds = 0;  ///< of the steps together
  std::vector<double> runs; ///< seconds of every run that was not timed step by step
  size_t passes = 0;
  size_t discarded = 0; ///< of them, as the machine was disturbed
  /// Whether too few passes were quiet, so that disturbed ones count too.
  bool isDisturbed = false;
  double othersShare = 0; ///< of the time of the threads, in which other programs had their CPU
  double slowdown = 1;    ///< of a loop of arithmetic, from its fastest pass to its median
  std::optional<double> oneThreadRun;  ///< seconds of a run by one thread
  std::optional<double> allThreadsRun; ///< by all that the process may use, where these are more
  std::vector<std::string> notes;      ///< what could not be found out, and why

  double overhead() const { return runSeconds > 0 ? timedSeconds / runSeconds - 1 : 0; }
};

/// The same engine and inputs with another number of threads.
using MakeRunner = std::function<Result<Runner>(unsigned threads)>;

/// Outputs and state of `runner` are undefined after it.
Result<Measurement> measureSteps(Runner &runner, const MakeRunner &make, double seconds,
                                 TaskListener &listener);

} // namespace tenon::tool
