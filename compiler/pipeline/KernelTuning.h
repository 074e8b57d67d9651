// The different problems of a model, and the kernels that can compute each as engines, for whoever
// measures them. What a tuner needs; free of MLIR.
#pragma once

#include "compiler/tuning/TuningDatabase.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::pipeline {

struct CompileOptions;

/// Regions of a model that are computed alike.
struct TuningProblem {
  tuning::Problem problem;
  std::string level;               ///< of the code that is measured
  std::vector<std::string> labels; ///< of the regions, in order
  bool isProduct = false;          ///< a matrix product or a convolution
  size_t kernels = 0;              ///< that can compute it
  double microseconds = 0;         ///< predicted, of the kernel that it gets without tuning
  std::string skipped;             ///< why it cannot be measured; empty if it can
};

struct EngineCandidate {
  std::string kernel; ///< dispatch::KernelChoice::text
  double predictedMicroseconds = 0;
  std::string engine; ///< a file, there until all are measured
};

/// Runs engines on the device they are for. tools/ has one. Called from one thread.
class CandidateMeasurer {
public:
  virtual ~CandidateMeasurer() = default;
  /// Which of the problems are measured, by index, in this order.
  virtual Result<std::vector<size_t>> order(const std::vector<TuningProblem> &problems) = 0;
  /// Kernels that come before those of the least predicted time, the best first; texts that are no
  /// kernels of the problem do not matter.
  virtual std::vector<std::string> warmStart(const TuningProblem &problem) = 0;
  /// The first candidate is the kernel that the problem gets without tuning. False to measure no
  /// more.
  virtual Result<bool> measure(const TuningProblem &problem,
                               const std::vector<EngineCandidate> &candidates) = 0;
};

/// Of a problem, so many kernels are measured at most.
inline constexpr size_t kMaxCandidates = 16;

/// Compiles the model of `options` up to dispatch, for its only target, and the best candidates of
/// each problem that the measurer asks for. `options.output` begins the names of their files. A
/// kernel that does not compile is left out.
Status tuneKernels(const CompileOptions &options, CandidateMeasurer &measurer);

} // namespace tenon::pipeline
