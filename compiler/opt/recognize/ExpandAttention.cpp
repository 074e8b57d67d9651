// Attention with heads that no attention kernel of a GPU holds becomes products and softmax. Relies
// on scores that are scaled before the product: of such heads their sums could leave f16.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

#include <limits>

using namespace mlir;

namespace tenon::opt {
namespace {

/// Columns of the widest heads that such kernels do.
constexpr int64_t kWidest = 256;

bool isWide(AffineExpr width) { return tn::constantDim(width).value_or(0) > kWidest; }

Value headsFirst(OpBuilder &builder, Value value, bool headsInner) {
  return headsInner ? transpose(builder, value.getLoc(), value, {0, 2, 1, 3}) : value;
}

Value productOf(OpBuilder &builder, Location location, Value a, Value b, bool transposeB) {
  tn::Dims dims = tn::getDims(a.getType()), other = tn::getDims(b.getType());
  dims.back() = transposeB ? other[2] : other[3];
  return tn::MatmulOp::create(
      builder, location, tn::makeTensor(dims, tensorType(a).getElementType()), a, b,
      /*transposeA=*/UnitAttr(), transposeB ? builder.getUnitAttr() : UnitAttr());
}

/// Zeros where all scores of a row are minus infinity.
Value withoutMaskedRows(OpBuilder &builder, Value scores, Value probabilities) {
  Location location = scores.getLoc();
  RankedTensorType type = tensorType(scores);
  Type element = type.getElementType();
  tn::Dims rows = tn::getDims(type);
  rows.back() = getAffineConstantExpr(1, builder.getContext());
  auto constant = [&](double value) -> Value {
    RankedTensorType single = RankedTensorType::get({}, element);
    return tn::ConstantOp::create(
        builder, location, single,
        DenseElementsAttr::get(single, builder.getFloatAttr(element, value)));
  };
  Value highest = tn::ReduceOp::create(builder, location, tn::makeTensor(rows, element), scores,
                                       tn::ReduceKind::max, ArrayRef<int64_t>{3}, true);
  Value lowest = constant(-std::numeric_limits<double>::infinity());
  Value isMasked =
      tn::CompareOp::create(builder, location, tn::makeTensor(rows, builder.getI1Type()), highest,
                            lowest, tn::Predicate::eq);
  return tn::SelectOp::create(builder, location, type, isMasked, constant(0), probabilities);
}

/// attention(q, k, v, mask) -> matmul(softmax(matmul(q * scale, k) + mask), v)
struct Expand : OpRewritePattern<tn::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::AttentionOp op, PatternRewriter &rewriter) const override {
    tn::Dims qDims = tn::getDims(op.getQ().getType()), kDims = tn::getDims(op.getK().getType());
    ArrayRef<bool> inner = op.getHeadsInner();
    bool isOneToOne = tn::sameDim(qDims[inner[0] ? 2 : 1], kDims[inner[1] ? 2 : 1]);
    Type element = tensorType(op.getQ()).getElementType();
    bool isOneType = !op.getMask() || tensorType(op.getMask()).getElementType() == element;
    if (op.getCausal() || !isOneToOne || !isOneType ||
        (!isWide(qDims[3]) && !isWide(tn::getDims(op.getV().getType())[3]))) {
      return failure();
    }
    Location location = op.getLoc();
    RankedTensorType single = RankedTensorType::get({}, element);
    Value scale = tn::ConstantOp::create(
        rewriter, location, single,
        DenseElementsAttr::get(single,
                               rewriter.getFloatAttr(element, op.getScale().convertToDouble())));
    Value q = headsFirst(rewriter, op.getQ(), inner[0]);
    q = tn::MulOp::create(rewriter, location, q.getType(), q, scale);
    Value k = headsFirst(rewriter, op.getK(), inner[1]);
    Value scores = productOf(rewriter, location, q, k, /*transposeB=*/true);
    if (op.getMask()) {
      scores = tn::AddOp::create(rewriter, location, scores.getType(), scores, op.getMask());
    }
    Value rows = tn::SoftmaxOp::create(rewriter, location, scores.getType(), scores,
                                       rewriter.getI64IntegerAttr(3), /*log=*/UnitAttr());
    if (op.getMask() && !op.getMaskedRowsAreNan()) {
      rows = withoutMaskedRows(rewriter, scores, rows);
    }
    Value v = headsFirst(rewriter, op.getV(), inner[2]);
    Value y = productOf(rewriter, location, rows, v, /*transposeB=*/false);
    rewriter.replaceOp(op, headsFirst(rewriter, y, inner[3]));
    return success();
  }
};

} // namespace

LogicalResult expandAttention(ModuleOp module, tn::WeightStore &) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<Expand>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
