// A transpose of the last two dims before a product becomes the product's own attribute.
// Relies on products reading either order at no cost (weights are packed, others go through a
// panel).
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// matmul(x, transpose(y)) -> matmul(x, y) {transposeB}; a dim order beyond the swap stays a
/// transpose.
struct TransposeIntoMatmul : OpRewritePattern<tn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::MatmulOp op, PatternRewriter &rewriter) const override {
    for (OpOperand &operand : op->getOpOperands()) {
      tn::TransposeOp transposed = operand.get().getDefiningOp<tn::TransposeOp>();
      if (!transposed || transposed.getPermutation() !=
                             ArrayRef<int64_t>(swapLast(transposed.getType().getRank()))) {
        continue;
      }
      rewriter.modifyOpInPlace(op, [&] {
        operand.set(transposed.getX());
        if (operand.getOperandNumber() == 0) {
          op.setTransposeA(!op.getTransposeA());
        } else {
          op.setTransposeB(!op.getTransposeB());
        }
      });
      return success();
    }
    return failure();
  }
};

} // namespace

LogicalResult foldTransposes(ModuleOp module, tn::WeightStore &) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<TransposeIntoMatmul>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
