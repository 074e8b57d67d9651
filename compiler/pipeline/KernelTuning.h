// The different problems of a model, and the kernels that can compute each as engines, for whoever
// measures them: a tuner, or a benchmark of kernels. Free of MLIR.
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
  std::string level; ///< of the code that is measured
  std::string strategy;
  std::vector<std::string> labels; ///< of the regions, in order
  bool isProduct = false;          ///< a matrix product or a convolution
  size_t kernels = 0;              ///< that can compute it
  std::string untuned;             ///< the kernel that it gets without tuning
  std::string skipped;             ///< why it cannot be measured; empty if it can
};

struct EngineCandidate {
  std::string kernel; ///< dispatch::KernelChoice::text
  double predictedMicroseconds = 0;
  std::string engine; ///< a file, there until all are measured
  Status compiled;    ///< without which there is no such file
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
  /// On a GPU the next candidates are compiled meanwhile. The first candidate is the kernel that
  /// the problem gets without tuning; where all kernels are asked for, more calls for the problem
  /// may follow, with that candidate and others. False to measure no more.
  virtual Result<bool> measure(const TuningProblem &problem,
                               const std::vector<EngineCandidate> &candidates) = 0;
};

/// So many kernels of a problem are measured together at most.
inline constexpr size_t kMaxCandidates = 16;

struct CandidateRequest {
  std::string node;       ///< only regions with this node of the model; empty for all
  bool areAll = false;    ///< all kernels, not the best kMaxCandidates
  size_t maxOfFamily = 0; ///< of all: so many of each family, evenly among them; 0 for all
};

/// Compiles the model of `options` up to dispatch, for its only target, and candidates of each
/// problem that the measurer asks for. `options.output` begins the names of their files.
Status measureKernels(const CompileOptions &options, const CandidateRequest &request,
                      CandidateMeasurer &measurer);

} // namespace tenon::pipeline
