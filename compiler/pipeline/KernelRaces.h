// The different problems of a model, and the kernels that can compute each as engines, for whoever
// races them. What a tuner needs; free of MLIR.
#pragma once

#include "compiler/tuning/Knowledge.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::pipeline {

struct CompileOptions;

/// Regions of a model that are computed alike.
struct RaceProblem {
  tuning::Problem problem;
  std::string level;               ///< of the code that is raced
  std::vector<std::string> labels; ///< of the regions, in order
  bool isProduct = false;          ///< a matrix product or a convolution
  size_t kernels = 0;              ///< that can compute it
  double microseconds = 0;         ///< predicted, of the kernel that it gets without tuning
  std::string skipped;             ///< why it cannot be raced; empty if it can
};

struct RaceCandidate {
  std::string kernel; ///< dispatch::KernelChoice::text
  double predictedMicroseconds = 0;
  std::string engine; ///< a file, there until the race is over
};

/// Runs engines on the device they are for. tools/ has one. Called from one thread.
class Racer {
public:
  virtual ~Racer() = default;
  /// Which of the problems are raced, by index, in this order.
  virtual Result<std::vector<size_t>> order(const std::vector<RaceProblem> &problems) = 0;
  /// Kernels that come before those of the least predicted time, the best first; texts that are no
  /// kernels of the problem do not matter.
  virtual std::vector<std::string> favourites(const RaceProblem &problem) = 0;
  /// The first candidate is the kernel that the problem gets without tuning. False to race no more.
  virtual Result<bool> race(const RaceProblem &problem,
                            const std::vector<RaceCandidate> &candidates) = 0;
};

/// Of a problem, so many kernels are raced at most.
inline constexpr size_t kMaxRaced = 16;

/// Compiles the model of `options` up to dispatch, for its only target, and the best candidates of
/// each problem that the racer asks for. `options.output` begins the names of their files. A kernel
/// that does not compile is left out.
Status raceKernels(const CompileOptions &options, Racer &racer);

} // namespace tenon::pipeline
