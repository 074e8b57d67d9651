// How regions become steps. An emitter looks at a region and either adds all its steps, or leaves
// it to the next one of the region's strategy: the table is in CudaCodegen.cpp.
#pragma once

#include "compiler/codegen/cuda/Region.h"

namespace tenon::codegen::cuda {

/// True if the region's steps were added, false if the region is not of the kind that this emitter
/// serves (nothing was added then), failure after a diagnostic.
using EmitterFn = mlir::FailureOr<bool> (*)(RegionBuilder &region);

/// Regions whose results share rows with reductions over all of a row, in one kernel.
mlir::FailureOr<bool> emitRows(RegionBuilder &region);

/// One call of a library (LibraryRegions.h).
mlir::FailureOr<bool> emitLibrary(RegionBuilder &region);
/// The same for an attention large enough that the call is faster than our own kernel, which stands
/// behind it as its spare.
mlir::FailureOr<bool> emitLibraryAttention(RegionBuilder &region);
/// One attention with movement ops around it (Attention.h).
mlir::FailureOr<bool> emitAttention(RegionBuilder &region);

/// One matmul of floats up to f32 and whatever elementwise ops follow (Product.h).
mlir::FailureOr<bool> emitProduct(RegionBuilder &region);
/// One large matmul of 16-bit floats with an epilogue that no call has (LargeProduct.h).
mlir::FailureOr<bool> emitLargeProduct(RegionBuilder &region);
/// One matmul of some rows by constant weights, its blocks all at once (SmallProduct.h).
mlir::FailureOr<bool> emitSmallProduct(RegionBuilder &region);
/// One matmul of few rows with constant weights, and whatever is fused around it (Gemv.h).
mlir::FailureOr<bool> emitGemv(RegionBuilder &region);

/// One selection whose steps depend on each other, by whole blocks (Selection.h).
mlir::FailureOr<bool> emitSelection(RegionBuilder &region);

/// Any region: kernels with a thread for a few outputs, and what lies between them stored.
mlir::FailureOr<bool> emitPoints(RegionBuilder &region);

/// What an emitter has left in a region's kernels, to the LLVM and NVVM dialects; steps that can
/// fail are marked. Fails after a diagnostic.
mlir::LogicalResult lowerKernels(RegionBuilder &region);
/// All of a region's steps by the emitters of its strategy; its kernels end in the LLVM and NVVM
/// dialects. Fails after a diagnostic.
mlir::LogicalResult lowerRegion(RegionBuilder &region);
/// What the context of a region given to `lowerRegion` must be made from.
void registerRegionDialects(mlir::DialectRegistry &registry);

} // namespace tenon::codegen::cuda
