// Selections by whole blocks: what their kernels share. Each is one operation of a region, whose
// operands lie in buffers.
#pragma once

#include "compiler/codegen/cuda/base/KernelShell.h"
#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/selection/Tuning.h"
#include "compiler/graph/TnRare.h"

namespace tenon::codegen::cuda {

using tuning::kSelectionThreads;

/// What a selection that is all of a region reads, then writes: the region's buffers.
struct Ports {
  llvm::SmallVector<uint32_t> buffers;
  uint32_t reads = 0;
};

/// The k first of each row in order, a row a block (SortRows.cpp).
RegionStep emitSortedRows(RegionBuilder &region, tn::TopKOp op, Ports ports);
/// The best boxes of each class, a class a block (SelectBoxes.cpp).
RegionStep emitSelectBoxes(RegionBuilder &region, tn::SelectBoxesOp op, Ports ports);

mlir::Value both(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
mlir::Value isNot(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
/// Whether an element of a tensor of bools is true.
mlir::Value holds(const ThreadBuilder &t, mlir::Value bools, mlir::Value place);

} // namespace tenon::codegen::cuda
