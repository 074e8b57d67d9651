// The threads of a block as a table: what those above each other have summed meets in shared
// memory.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/rows/RowsCombine.h"
#include "compiler/codegen/cuda/rows/RowsReductionSpread.h"

namespace tenon::codegen::cuda {

/// Combines, over the threads of each column of the table, the accumulators of each of its lanes;
/// the threads at the top get the results.
void combineColumns(KernelFrame &kernel, const Combiner &combiner, const Spread &spread,
                    const Index &thread, llvm::SmallVector<Accumulators> &own);

} // namespace tenon::codegen::cuda
