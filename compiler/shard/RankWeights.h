// What differs between ranks becomes data, so that one code serves all: parts of weights are
// weights of which each rank has its own, and a part of a computed value is gathered by such a
// weight. Parts that are gathered from all ranks stand one behind the other and are then put in
// order. Relies on a cut graph (CutGraph.h).
#pragma once

#include "compiler/graph/WeightStore.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Status.h"

namespace tenon::shard {

/// Leaves tn.all_reduce and tn.all_gather of whole parts, along a leading dim of the ranks.
/// `weights` is told how many there are.
Status placeRanks(mlir::ModuleOp cut, tn::WeightStore &weights, int64_t ranks);

} // namespace tenon::shard
