// The pattern groups of the passes that consist of several files, and patterns of several passes.
// Relies on mlir's greedy driver to apply them.
#pragma once

#include "compiler/opt/Match.h"

namespace tenon::opt {

/// Identities and exact rewrites of elementwise operations.
void addArithmeticPatterns(mlir::RewritePatternSet &patterns, tn::WeightStore &weights);

/// Identities and chains of reshape, transpose, broadcast, slice, pad, concat and cast.
void addMovementPatterns(mlir::RewritePatternSet &patterns, tn::WeightStore &weights);

/// What becomes of 8-bit weights behind tn.dequantize that products and gathers read.
enum class QuantizedWeights { Keep, Fold };
/// Evaluation of operations on constants.
void addConstantPatterns(mlir::RewritePatternSet &patterns, tn::WeightStore &weights,
                         QuantizedWeights quantized);

/// Broadcasts move behind elementwise operations or vanish.
void addBroadcastPatterns(mlir::RewritePatternSet &patterns, tn::WeightStore &weights);

/// Gathers that read everything in order are reshapes.
void addIndexingPatterns(mlir::RewritePatternSet &patterns, tn::WeightStore &weights);

/// Tables of quantized numbers are gathered from before they are dequantized.
void addDequantizePatterns(mlir::RewritePatternSet &patterns);

/// Transposes move behind the operations that use them.
void addSinkTransposePatterns(mlir::RewritePatternSet &patterns, tn::WeightStore &weights);

/// op(op(x)) -> op(x), of operations whose result's type says all that becomes of x.
template <typename Op> struct MergeTwice : Pattern<Op> {
  using Pattern<Op>::Pattern;
  llvm::LogicalResult matchAndRewrite(Op op, mlir::PatternRewriter &rewriter) const override {
    Op inner = op.getX().template getDefiningOp<Op>();
    if (!inner) {
      return mlir::failure();
    }
    rewriter.replaceOpWithNewOp<Op>(op, op.getType(), inner.getX());
    return mlir::success();
  }
};

} // namespace tenon::opt
