// The end of a product's kernel: accumulators go through the epilogue, which is the region's
// elementwise ops, are rounded to the result's type and stored, neighbours of a row by one access.
// Relies on ElementEmitter for the ops and on GemmMatch.h for the tensors.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"

namespace tenon::codegen::cuda {

/// Neighbours in a row of the result.
struct ResultStrip {
  Indices place; ///< of the first
  Index linear;  ///< of the first in the row-major result
  /// [part][neighbour], of type `tensors.sum`'s or f32. The parts are those of the product's
  /// columns that the epilogue combines (the gate and the linear part of a gated unit), so many
  /// columns apart.
  ThreadBuilder::Values accumulators;
  int64_t parts = 1, partColumns = 0;
  /// Whether they are stored (i1; null: they are).
  mlir::Value isStored;
  /// Whether the epilogue reads tensors of the result's dims at `linear`, too, or computes where
  /// from `place`.
  bool readsLinear = true;
};

/// All loads of the epilogue come before its arithmetic. Emits nothing more after a diagnostic.
void storeThroughEpilogue(ElementEmitter &emitter, const GemmTensors &tensors,
                          llvm::ArrayRef<ResultStrip> strips);

} // namespace tenon::codegen::cuda
