// The way of one region from its `tn` function to kernels in the LLVM and NVVM dialects, for those
// who hold the region in a context of their own.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"

namespace tenon::codegen::cuda {

/// All of a region's steps, by the kernel that `tn.kernel` names. Fails after a diagnostic.
mlir::LogicalResult lowerRegion(RegionBuilder &region);
/// What a family has left in a region's kernels, to the LLVM and NVVM dialects; steps that can fail
/// are marked. Fails after a diagnostic.
mlir::LogicalResult lowerKernels(RegionBuilder &region);
/// What the context of a region given to `lowerRegion` must be made from.
void registerRegionDialects(mlir::DialectRegistry &registry);

} // namespace tenon::codegen::cuda
