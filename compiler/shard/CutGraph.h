// The graph that each rank runs: local shapes, parts of weights by rank, and what ranks exchange as
// operations (TnShardOps.td). One graph for all ranks; what differs is in tn.rank_slice alone.
#pragma once

#include "compiler/shard/Search.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"

namespace tenon::shard {

/// A module whose function @main has the model's inputs and outputs; states of sessions have the
/// shape of one rank. Verified.
Result<mlir::OwningOpRef<mlir::ModuleOp>> cutGraph(mlir::ModuleOp module, const Graph &graph,
                                                   const Plan &plan);

/// The cut that an operation of TnShardOps.td states in its attributes.
template <typename Op> Cut cutOf(Op op) {
  Cut cut{static_cast<int64_t>(op.getDim()), static_cast<int64_t>(op.getRepeat()), {}};
  for (auto [size, copies] : llvm::zip_equal(op.getSizes(), op.getCopies())) {
    cut.pieces.push_back({size, copies});
  }
  return cut;
}

} // namespace tenon::shard
