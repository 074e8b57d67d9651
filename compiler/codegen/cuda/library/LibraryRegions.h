// Regions that a library computes whole: from the region's `tn` ops to one call by descriptor
// (engine/LibraryAbi.h). Relies on dispatch/Strategy.h for what a contraction on a GPU may hold.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/dispatch/KernelChoice.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace tenon::codegen::cuda {

/// The step that computes `kernel`, a region of strategy kContraction or kAttention; none if no
/// single call of a library gives its result, so that code must be generated. The module says
/// whether FP32 may be computed in TF32 (common/RegionSource.h).
std::optional<RegionStep> libraryStep(mlir::func::FuncOp kernel);

/// A region that one call computes whole.
struct LibraryCall {
  RegionStep step;
};

/// Adds the call, and behind it, for machines without the library, the kernel that would be chosen
/// without it.
mlir::LogicalResult emitCallWithFallback(RegionBuilder &region, const LibraryCall &call,
                                         const dispatch::KernelChoice &choice);

/// Predicted seconds of a call by bytes and operations, from the end of the kernel before.
double callSeconds(RegionBuilder &region, const LibraryCall &call,
                   const dispatch::KernelChoice &choice);

} // namespace tenon::codegen::cuda
