// What one attention region asks for: its sizes, and where each operand's elements lie in the
// region's buffers once transposes, slices and broadcasts around the op are read as strides.
#pragma once

#include "compiler/codegen/cuda/base/Fit.h"
#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace tenon::codegen::cuda {

/// A tensor inside one of the region's buffers: element i is at offset + sum of i_d * strides_d.
struct StridedTensor {
  uint32_t buffer = 0; ///< as in RegionStep::buffers
  mlir::Type element;
  mlir::AffineExpr offset;
  tn::Dims strides;
};

struct AttentionProblem {
  mlir::AffineExpr batches, heads, keyHeads, queries, keys, width, valueWidth;
  /// Strides of batch, head, row and column.
  StridedTensor q, k, v, y;
  /// Strides over [batch, head, query, key], 0 where it broadcasts.
  std::optional<StridedTensor> mask;
  double scale = 1;
  bool causal = false;
  /// Number of the region's first temporary.
  uint32_t firstTemporary = 0;
};

/// The problem of a region that holds one tn.attention, movement ops before it and at most
/// transposes after it.
Fit<AttentionProblem> matchAttention(mlir::func::FuncOp region);

/// Where a value lies in an input of its region: through transposes, slices, broadcasts and
/// reshapes of what is contiguous. None if it is computed.
std::optional<StridedTensor> stridedInput(mlir::Value value);

} // namespace tenon::codegen::cuda
