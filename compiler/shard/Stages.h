// Pipeline stages: where a model is cut so that parts that follow each other run on different
// ranks. Cuts balance predicted time and memory, and prefer few values between stages, as the
// residual stream between blocks; no name of a layer matters. Relies on operations in the order in
// which they are computed.
#pragma once

#include "compiler/shard/Search.h"
#include "support/Result.h"

#include <vector>

namespace tenon::shard {

/// What a stage computes and holds, for the sizes of the costs; of one rank.
struct Stage {
  size_t first = 0, end = 0; ///< positions in the graph's operations
  double seconds = 0;        ///< without what it receives
  double receiving = 0;      ///< seconds of what it receives
  int64_t weightBytes = 0;   ///< those that two stages read count in both
  int64_t stateBytes = 0;
  std::vector<mlir::Value> received; ///< values of stages before
};

/// Of a graph whose operations ranks share as `plan` says. TN0105 where the model has fewer parts
/// that follow each other.
Result<std::vector<Stage>> findStages(const Graph &graph, const Plan &plan, const Costs &costs,
                                      const target::Collectives &links, int64_t stages);

/// Puts tn.send_receive where values pass from stage to stage, and tn.stages on the module. What is
/// cheap to compute from inputs is left for each stage to compute.
void insertStages(mlir::ModuleOp module, const Graph &graph, const std::vector<Stage> &stages);

} // namespace tenon::shard
