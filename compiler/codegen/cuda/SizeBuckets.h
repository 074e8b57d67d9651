// Regions of which one size varies, the first dim of what they read and write, by kernels for
// ranges
// ("buckets") of it, each the fastest there. All are launched; base/StepRange.h leaves out those
// whose range does not hold the size. Products of few rows have buckets of their own
// (gemm/RowBuckets.h). Relies on all kernels of a region reading one layout of its weight.
#pragma once

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/StepRange.h"
#include "compiler/dispatch/WeightLayout.h"

namespace tenon::codegen::cuda {

struct SizeBucket {
  SizeRange sizes;
  dispatch::KernelChoice kernel;
};

struct SizeBuckets {
  unsigned symbol = 0; ///< the size that varies
  SizeRange all;       ///< that it may be
  std::optional<dispatch::WeightLayout> layout;
  llvm::SmallVector<SizeBucket> buckets; ///< by sizes
};

/// The kernels for a region, of libraries' calls only those that `calls` allows.
MatchResult<SizeBuckets> sizeBucketsOf(RegionBuilder &region, bool calls);

} // namespace tenon::codegen::cuda
