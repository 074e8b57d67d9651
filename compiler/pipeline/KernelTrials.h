// Every kernel that can compute a region, compiled as an engine of its own and timed by whoever can
// run it. What a tuner needs; free of MLIR.
#pragma once

#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::pipeline {

struct CompileOptions;

/// Runs engines on the device they are for. tools/ has one.
class Measurer {
public:
  struct Timing {
    double microseconds = 0; ///< of a run
    /// The largest difference of an output from that of the region's first kernel, as a part of
    /// the largest element there.
    double difference = 0;
  };

  virtual ~Measurer() = default;
  /// Of the engine in this file, which holds one region. Equal regions follow each other, the first
  /// with `isFirst`. Called from one thread.
  virtual Result<Timing> measure(const std::string &path, bool isFirst) = 0;
};

/// One kernel of a region.
struct KernelTrial {
  std::string kernel; ///< dispatch::KernelChoice::text
  bool isChosen = false;
  double predictedMicroseconds = 0;
  Measurer::Timing measured;
  std::string problem; ///< why it was not compiled or did not run; empty if it did
};

/// One of the different regions of a model.
struct RegionTrials {
  std::string label;
  std::string strategy;
  std::string skipped;             ///< why nothing was measured; empty if something was
  std::vector<KernelTrial> trials; ///< the chosen one first
};

struct TrialRequest {
  /// Only the region with this node of the model; empty for all.
  std::string node;
  /// Configurations of each family, evenly among all that it has; 0 for all of them.
  size_t mostOfFamily = 0;
};

/// Compiles the model of `options` up to dispatch, for its only target, then each kernel of each
/// region. `options.output` is the file that holds one engine after the other. A kernel that cannot
/// be compiled is told in its trial; errors are those of the model, or that nothing has the node.
Result<std::vector<RegionTrials>> measureKernels(const CompileOptions &options,
                                                 const TrialRequest &request, Measurer &measurer);

} // namespace tenon::pipeline
