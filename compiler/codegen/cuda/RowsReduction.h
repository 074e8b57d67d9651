// One reduction over any loops of its op, shared out among many threads: over columns, and over the
// whole of few long rows.
#pragma once

#include "compiler/codegen/cuda/RowsCombine.h"
#include "compiler/codegen/cuda/Schedule.h"

namespace tenon::codegen::cuda {

/// Emits the kernels of a group of the schedule if its roots are made of one reduction, each
/// element of one of its results, and the reduction is long enough to be shared out. False if
/// nothing was emitted.
bool emitReductionKernels(RegionBuilder &region, const KernelRoots &group, bool &hasFailed);

} // namespace tenon::codegen::cuda
