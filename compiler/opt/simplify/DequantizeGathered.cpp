// A gather from a table of 8-bit numbers behind scales gathers the numbers, as a pattern of
// `simplify`: the table of an embedding stays as small as it is in the model. Relies on constant
// folding leaving tn.dequantize of such tables.
#include "compiler/opt/Match.h"
#include "compiler/opt/Patterns.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// gather(dequantize(x), i) -> dequantize(gather(x, i)), or (gather(x, i) - zeros) * scales, with
/// those of the rows gathered too.
struct DequantizeGathered : OpRewritePattern<tn::GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tn::GatherOp op, PatternRewriter &rewriter) const override {
    tn::DequantizeOp source = op.getX().getDefiningOp<tn::DequantizeOp>();
    bool isTable = source && Constants::isConstant(source.getX()) &&
                   getElementTypeOrSelf(source.getX()).getIntOrFloatBitWidth() == 8 &&
                   !Constants::isConstant(op.getIndices());
    if (!isTable) {
      return failure();
    }
    uint64_t axis = op.getAxis(), own = source.getAxis();
    bool isPerTensor = tensorType(source.getScale()).getRank() == 0;
    if (isPerTensor || own != axis) {
      uint64_t more = tensorType(op.getIndices()).getRank() - 1;
      uint64_t moved = isPerTensor ? 0 : own < axis ? own : own + more;
      rewriter.replaceOpWithNewOp<tn::DequantizeOp>(
          op, op.getType(), gathered(rewriter, op, source.getX(), axis), source.getScale(),
          source.getZeroPoint(), moved);
      return success();
    }
    if (!getElementTypeOrSelf(op.getType()).isF32()) {
      return failure();
    }
    Location location = op.getLoc();
    auto ofRows = [&](Value parameter) {
      Value rows = gathered(rewriter, op, parameter, 0);
      tn::Dims dims(tensorType(op.getY()).getRank(), rewriter.getAffineConstantExpr(1));
      llvm::copy(tn::getDims(rows.getType()), dims.begin() + axis);
      return castTo(rewriter, location, reshape(rewriter, location, rows, dims),
                    rewriter.getF32Type());
    };
    Value numbers = castTo(rewriter, location, gathered(rewriter, op, source.getX(), axis),
                           rewriter.getF32Type());
    Value levels =
        tn::SubOp::create(rewriter, location, op.getType(), numbers, ofRows(source.getZeroPoint()));
    rewriter.replaceOpWithNewOp<tn::MulOp>(op, op.getType(), levels, ofRows(source.getScale()));
    return success();
  }

private:
  /// The same gather from another tensor, of the same dims or of the axis alone.
  static Value gathered(PatternRewriter &rewriter, tn::GatherOp op, Value table, uint64_t axis) {
    bool isWhole = tensorType(table).getRank() == tensorType(op.getX()).getRank();
    tn::Dims dims = tn::getDims((isWhole ? op.getY() : op.getIndices()).getType());
    return tn::GatherOp::create(rewriter, op.getLoc(),
                                tn::makeTensor(dims, getElementTypeOrSelf(table)), table,
                                op.getIndices(), axis);
  }
};

} // namespace

void addDequantizePatterns(RewritePatternSet &patterns) {
  patterns.add<DequantizeGathered>(patterns.getContext());
}

} // namespace tenon::opt
