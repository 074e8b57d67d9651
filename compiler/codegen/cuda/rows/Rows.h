// Kernels for rows: softmax, norms and reductions over trailing dims with the elementwise work
// around them, each row read once and written once.
#pragma once

#include "compiler/codegen/cuda/rows/RowsThreads.h"
#include "compiler/codegen/cuda/rows/RowsWork.h"

namespace tenon::codegen::cuda {

/// How the rows of `work` are to be shared out depends on these.
dispatch::RowInfo infoOf(RegionBuilder &region, const RowsWork &work);

/// Emit the kernel of `work`; `hasFailed` is set after a diagnostic.
void emitRowsInRegisters(RegionBuilder &region, const RowsWork &work,
                         const RowReductionConfig &layout, bool &hasFailed);

/// The same for rows that are copied to shared memory ahead of their use.
void emitRowsStaged(RegionBuilder &region, const RowsWork &work, const RowReductionConfig &layout,
                    bool &hasFailed);

/// The same for rows of any length.
void emitRowsInLoops(RegionBuilder &region, const RowsWork &work, bool &hasFailed);

} // namespace tenon::codegen::cuda
