// How regions become steps. An emitter looks at a region and either adds all its steps, or leaves it to
// the next one of the region's strategy: the table is in CudaCodegen.cpp.
#pragma once

#include "compiler/codegen/cuda/Region.h"

namespace tenon::codegen::cuda {

/// True if the region's steps were added, false if the region is not of the kind that this emitter
/// serves (nothing was added then), failure after a diagnostic.
using EmitterFn = mlir::FailureOr<bool> (*)(RegionBuilder &region);

/// Regions whose results share rows with reductions over all of a row, in one kernel.
mlir::FailureOr<bool> emitRows(RegionBuilder &region);

/// Any region: kernels with a thread for a few outputs, and what lies between them stored.
mlir::FailureOr<bool> emitPoints(RegionBuilder &region);

} // namespace tenon::codegen::cuda
