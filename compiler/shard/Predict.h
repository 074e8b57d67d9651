// What a plan takes: memory of a rank, messages and time. Relies on the same costs as the search.
#pragma once

#include "compiler/shard/Search.h"

#include <string>
#include <vector>

namespace tenon::shard {

/// Messages of one kind and size.
struct MessageCount {
  target::Collective kind = target::Collective::AllReduce;
  int64_t bytes = 0; ///< of the whole value
  int64_t count = 0;
  double seconds = 0; ///< of all of them
};

/// One run, for the sizes of the costs.
struct RunPrediction {
  double seconds = 0; ///< with messages
  double communicating = 0;
  std::vector<MessageCount> messages;
  llvm::DenseMap<mlir::Operation *, double> computing; ///< seconds of each operation
  llvm::DenseMap<mlir::Operation *, double> sending;   ///< of the messages with its results
  int64_t activationBytes = 0;                         ///< live at once, at most: an estimate
};
RunPrediction predictRun(const Graph &graph, const Plan &plan, const Costs &costs);

/// Bytes of weights that a rank maps.
int64_t weightBytesOf(const Graph &graph, const Plan &plan, const Costs &costs);
/// Bytes of the state of a session on one rank.
int64_t stateBytesOf(const Graph &graph, const Plan &plan, const Costs &costs);
/// Nothing is cut.
Plan wholePlan(const Graph &graph);

} // namespace tenon::shard
