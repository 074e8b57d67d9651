// All ranks of a cut graph on the reference interpreter, one operation after the other on each:
// collectives are sums and concatenations. For tests and `explain sharding --verify`; nothing here
// runs on several devices.
#pragma once

#include "compiler/reference/Interpreter.h"
#include "compiler/shard/CutGraph.h"

namespace tenon::shard {

/// What each rank returns, for what each rank gets.
Result<std::vector<std::vector<reference::Tensor>>>
runRanks(mlir::ModuleOp cut, tn::WeightStore &weights,
         const std::vector<std::vector<reference::Tensor>> &inputs, int64_t ranks);

/// How far the outputs of the ranks are from those of one rank.
struct RankCheck {
  double difference = 0; ///< the largest, relative to its output's largest element
  std::string output;    ///< the one with it
  int64_t collectives = 0;
};
/// Computes in float64, where rounding hides nothing: what is more than kRankTolerance is a wrong
/// cut. The inputs are those of the whole model.
inline constexpr double kRankTolerance = 1e-9;
Result<RankCheck> checkRanks(mlir::ModuleOp module, mlir::ModuleOp cut, const Graph &graph,
                             const Plan &plan, tn::WeightStore &weights,
                             const std::vector<reference::Tensor> &inputs);

} // namespace tenon::shard
