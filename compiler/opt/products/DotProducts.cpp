// Products with one column, or of one row with a transposed operand, are sums along rows that lie
// contiguous: no tile of columns fills a vector there, and the rows take what stands before and
// behind them. Relies on rows being fused in dispatch.
#include "compiler/graph/TnRare.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// A depth below which a row is shorter than a few vectors.
constexpr int64_t kMinDotDepth = 64;

struct DotProduct : OpRewritePattern<tn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::MatmulOp op, PatternRewriter &rewriter) const override {
    tn::Dims a = tn::getDims(op.getA().getType()), b = tn::getDims(op.getB().getType());
    tn::Dims result = tn::getDims(op.getType());
    Type element = op.getType().getElementType();
    std::optional<int64_t> depth = tn::constantDim(a.back());
    if (op.getTransposeA() || a.size() < 2 || b.size() < 2 || !depth || *depth < kMinDotDepth ||
        !(element.isF32() || element.isF64()) || getElementTypeOrSelf(op.getA()) != element ||
        getElementTypeOrSelf(op.getB()) != element || op.getB().getDefiningOp<tn::DecodeRowsOp>()) {
      return failure();
    }
    size_t rank = result.size();
    bool isColumn = isOne(result[rank - 1]);
    // A constant is laid out for the packed product, which reads it as fast.
    bool isRow = isOne(result[rank - 2]) && op.getTransposeB() && !Constants::isConstant(op.getB());
    if (!isColumn && !isRow) {
      return failure();
    }
    Value rows = op.getA(), vector = op.getB();
    if (!isColumn) {
      std::swap(rows, vector);
    }
    tn::Dims vectorDims = tn::getDims(vector.getType()), rowDims = tn::getDims(rows.getType());
    vectorDims[vectorDims.size() - 2] = rewriter.getAffineConstantExpr(1);
    vectorDims.back() = rowDims.back();
    tn::Dims all(ArrayRef(result).drop_back(2)), sums(ArrayRef(result).drop_back(2));
    AffineExpr count = rowDims[rowDims.size() - 2];
    all.append({count, rowDims.back()});
    sums.append({count, rewriter.getAffineConstantExpr(1)});
    Value products = tn::MulOp::create(rewriter, op.getLoc(), tn::makeTensor(all, element), rows,
                                       reshape(rewriter, op.getLoc(), vector, vectorDims));
    Value sum =
        tn::ReduceOp::create(rewriter, op.getLoc(), tn::makeTensor(sums, element), products,
                             tn::ReduceKind::sum, ArrayRef<int64_t>{static_cast<int64_t>(rank) - 1},
                             /*keepdims=*/true);
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), sum, result));
    return success();
  }
};

} // namespace

LogicalResult dotProducts(ModuleOp module, tn::WeightStore &) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<DotProduct>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
