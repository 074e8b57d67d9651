// A kernel in front of a convolution that lays out a filter which was computed, so that a line of
// it is read in whole accesses. Relies on filters being small beside what they are multiplied with.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/base/StridedTensor.h"

namespace tenon::codegen::cuda {

/// Adds a kernel that stores the elements of `from`, whose strides stand in the order of `sizes`,
/// one after the other; gives the temporary that holds them.
unsigned layOutFilter(RegionBuilder &region, const StridedTensor &from,
                      llvm::ArrayRef<int64_t> sizes);

} // namespace tenon::codegen::cuda
