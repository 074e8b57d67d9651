// What ONNX Runtime's forms of attention share: its masks, its scale, and heads merged at the end.
#pragma once

#include "compiler/frontend/onnx/ops/Heads.h"

namespace tenon::onnx {

/// The sum of two addends, of which one or both may be null.
mlir::Value sumOf(NodeContext &c, mlir::Value a, mlir::Value b);

/// The addend of mask input `i`; null without one. A mask over keys, [B, T] or [B, S, T], leaves
/// out those at which it is 0; one of lengths, [B] or [2 B], those at and after the length, and
/// those before the start that its second half gives. What is left out has mask_filter_value.
mlir::Value paddingAddend(NodeContext &c, unsigned i, mlir::AffineExpr batch, mlir::AffineExpr keys,
                          mlir::Type element);

/// What is done to scores beside their scale and mask.
struct ScoreForm {
  double cap = 0;   ///< where it is not 0, scores stay between minus and plus it
  mlir::Value sink; ///< of each head, a score more that counts in the softmax alone; null for none

  bool isPlain() const { return cap == 0 && !sink; }
};

/// Attention as separate operations, of operands [B, H, S, D].
mlir::Value attendSeparately(NodeContext &c, mlir::Value q, mlir::Value k, mlir::Value v,
                             mlir::Value mask, double scale, const ScoreForm &form);

/// Output 0 is the attention of operands [B, H, S, D], its heads merged; `maskedRowsAreNan` as in
/// tn.attention.
void setAttention(NodeContext &c, mlir::Value q, mlir::Value k, mlir::Value v, mlir::Value mask,
                  bool causal, bool maskedRowsAreNan, const ScoreForm &form = {});

} // namespace tenon::onnx
