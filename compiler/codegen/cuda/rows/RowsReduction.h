// One reduction over any loops of its op, shared out among many threads: over columns, and over the
// whole of few long rows.
#pragma once

#include "compiler/codegen/cuda/pointwise/Schedule.h"
#include "compiler/codegen/cuda/rows/RowsCombine.h"

#include <optional>

namespace tenon::codegen::cuda {

/// The reduction that all of the roots are made of, each element of a root of one element of its
/// results; null if there is none, or another is in the way.
mlir::linalg::GenericOp findReduction(RegionBuilder &region, llvm::ArrayRef<Root> roots);

/// A tensor of which a reduction reads as many elements as it makes steps.
struct WholeSource {
  mlir::Type element;
  /// The loop along which its elements lie side by side.
  unsigned innerLoop;
};

/// Nothing for products of smaller tensors (matmuls, convolutions), which are computed in other
/// ways.
std::optional<WholeSource> wholeSource(RegionBuilder &region, mlir::linalg::GenericOp op);

/// Whether the roots are made of one reduction that is shared out among many threads.
bool isSharedReduction(RegionBuilder &region, llvm::ArrayRef<Root> roots);

/// Emits the kernels of a group of the schedule if its roots are made of one reduction, each
/// element of one of its results, and the reduction is long enough to be shared out. False if
/// nothing was emitted.
bool emitReductionKernels(RegionBuilder &region, const KernelRoots &group, bool &hasFailed);

} // namespace tenon::codegen::cuda
