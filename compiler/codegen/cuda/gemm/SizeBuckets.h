// Regions of which one size varies, the first dim of what they read and write, by kernels for
// ranges
// ("buckets") of it, each the fastest there. All are launched; base/StepRange.h leaves out those
// whose range does not hold the size. Products of few rows have buckets of their own
// (RowBuckets.h). Relies on all kernels of a region reading one layout of its weight.
#pragma once

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/StepRange.h"
#include "compiler/dispatch/WeightLayout.h"

namespace tenon::codegen::cuda {

/// The last sizes of ranges, up to which a kernel is chosen for all of a range: an engine of one of
/// these sizes alone has the same. The last range has no end.
inline constexpr int64_t kLastSizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 14,  16,
                                         20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128};

struct SizeBucket {
  llvm::SmallVector<SizeRange, 2> ranges; ///< in order, not beside each other
  dispatch::KernelChoice kernel;

  /// From the first size to the last one, for which its code is right.
  SizeRange whole() const { return {ranges.front().least, ranges.back().most}; }
};

struct SizeBuckets {
  unsigned symbol = 0; ///< the size that varies
  SizeRange all;       ///< that it may be
  std::optional<dispatch::WeightLayout> layout;
  llvm::SmallVector<SizeBucket> buckets;
};

/// The kernels for a region, of libraries' calls only those that `calls` allows.
MatchResult<SizeBuckets> sizeBucketsOf(RegionBuilder &region, bool calls);

} // namespace tenon::codegen::cuda
