// Selections by whole blocks: what their kernels share. Each is one operation of a region, whose
// operands lie in buffers.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
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

/// Of an operation whose operands are inputs of the region. Results that do not leave the region
/// get temporaries.
Ports portsOf(RegionBuilder &region, mlir::Operation *op);

/// The places of true elements in order, then zeros, and how many are true (TruePositions.cpp).
void emitTruePositions(RegionBuilder &region, tn::TruePositionsOp op, const Ports &ports);
/// The best boxes of each class, a class a block (SelectBoxes.cpp).
void emitSelectBoxes(RegionBuilder &region, tn::SelectBoxesOp op, Ports ports);

/// Whether an element of a tensor of bools is true.
mlir::Value holds(const ThreadBuilder &t, mlir::Value bools, mlir::Value place);

} // namespace tenon::codegen::cuda
