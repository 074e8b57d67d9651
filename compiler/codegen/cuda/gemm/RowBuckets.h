// Products whose row count varies, by kernels for ranges ("buckets") of it: those for few rows,
// that stream weights, and whatever is the fastest for more. All are launched; the grid of a kernel
// has no blocks where the rows are not in its range, and the runtime leaves such launches out.
// Relies on all of them reading one layout of the weights: [columns, depth].
#pragma once

#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/SubRegion.h"

namespace tenon::codegen::cuda {

/// Up to how many rows kernels for few rows do it.
struct BucketLimits {
  int64_t few = 0;
};

template <typename Visitor> void visitParameters(Visitor &visit, BucketLimits &limits) {
  visit("few", limits.few);
}

struct RowBucket {
  RowRange rows;
  /// One kernel, or one for each part of the region (`partsOf`).
  llvm::SmallVector<dispatch::KernelChoice> kernels;
  FewBits weights = FewBits::Decoded; ///< of the parts
};

struct RowBuckets {
  mlir::AffineExpr rowCount;
  RowRange all; ///< that the symbols allow
  std::optional<dispatch::WeightLayout> layout;
  llvm::SmallVector<RowBucket> buckets; ///< by rows
  BucketLimits limits;
  std::string order; ///< of an invariant model: KernelFamily::order, of all kernels
};

/// The kernels for a region, of libraries' calls only those that `calls` allows.
MatchResult<RowBuckets> rowBucketsOf(RegionBuilder &region, bool calls);

} // namespace tenon::codegen::cuda
