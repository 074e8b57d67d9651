// The order of regions: the model's own, or one that needs less memory at once if a greedy choice
// finds it; for a GPU with branches moved apart. Relies on regions being free of effects.
#pragma once

#include "compiler/graph/Tn.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tenon::plan {

/// The value whose memory this one shares: what dispatch left outside of regions are views
/// (graph/Views.h).
mlir::Value storageOf(mlir::Value value);

/// The regions of a block in the order to run. `bytesOf` gives the size of a value. With
/// `partsBranches`, regions that could run beside those before them stand in front of them, where
/// that needs no more memory: what shares none may overlap (Branches.h).
llvm::SmallVector<tn::RegionOp> orderRegions(mlir::Block *block,
                                             llvm::function_ref<int64_t(mlir::Value)> bytesOf,
                                             bool partsBranches);

} // namespace tenon::plan
