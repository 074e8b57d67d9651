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

/// Adds the call that computes a region whole; and behind it, as its spare, the kernel that would
/// be chosen without the library.
mlir::LogicalResult emitCall(RegionBuilder &region, const dispatch::KernelChoice &choice);
mlir::LogicalResult emitCallWithSpare(RegionBuilder &region, const dispatch::KernelChoice &choice);

/// Predicted seconds of a call by bytes and operations, from the end of the kernel before.
double callCost(RegionBuilder &region, const dispatch::KernelChoice &choice);

} // namespace tenon::codegen::cuda
