// Convolutions that are products: over single positions, and over patches that do not overlap.
// Relies on the libraries' products being at least as fast as their convolutions, and chosen in
// less time.
#include "compiler/graph/WideReason.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

bool isAll(ArrayRef<int64_t> values, int64_t value) {
  return llvm::all_of(values, [&](int64_t each) { return each == value; });
}

/// One group, no padding, floats, a constant weight.
bool isPlain(tn::ConvOp conv) {
  return conv.getChannelsLast() && conv.getGroups() == 1 && isAll(conv.getPads(), 0) &&
         isAll(conv.getDilations(), 1) && isa<FloatType>(conv.getType().getElementType()) &&
         Constants::isConstant(conv.getWeight()) &&
         tensorType(conv.getWeight()).getNumElements() > 0;
}

/// The weight as [K, everything else].
Value flatWeight(OpBuilder &builder, Value weight) {
  RankedTensorType type = tensorType(weight);
  int64_t rows = type.getDimSize(0);
  RankedTensorType flat =
      RankedTensorType::get({rows, type.getNumElements() / rows}, type.getElementType());
  Value same = withShape(builder, weight, flat);
  return same ? same : tn::ReshapeOp::create(builder, weight.getLoc(), flat, weight).getResult();
}

/// x * weightᵀ + bias in place of the convolution.
void replaceByProduct(PatternRewriter &rewriter, tn::ConvOp conv, Value x) {
  tn::MatmulOp product = tn::MatmulOp::create(rewriter, conv.getLoc(), conv.getType(), x,
                                              flatWeight(rewriter, conv.getWeight()),
                                              /*transposeA=*/UnitAttr(), rewriter.getUnitAttr());
  for (StringRef note : {tn::kWideReason, tn::kPriced}) {
    if (Attribute value = conv->getAttr(note)) {
      product->setAttr(note, value);
    }
  }
  Value result = product;
  if (conv.getBias()) {
    result = tn::AddOp::create(rewriter, conv.getLoc(), conv.getType(), result, conv.getBias());
  }
  rewriter.replaceOp(conv, result);
}

/// conv over single positions -> matmul(x, weight) {transposeB}
struct Pointwise : OpRewritePattern<tn::ConvOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> filter = tensorType(op.getWeight()).getShape().drop_front(2);
    if (!isPlain(op) || !isAll(filter, 1) || !isAll(op.getStrides(), 1)) {
      return failure();
    }
    replaceByProduct(rewriter, op, op.getX());
    return success();
  }
};

/// conv(transpose(x)) with steps as long as the filter -> a product with each patch as a row. x is
/// in the order [N, C, H, W], so a patch comes out in the weight's order.
struct Patches : OpRewritePattern<tn::ConvOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::ConvOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> filter = tensorType(op.getWeight()).getShape().drop_front(2);
    tn::TransposeOp toLast = op.getX().getDefiningOp<tn::TransposeOp>();
    if (!isPlain(op) || op.getType().getRank() != 4 || filter != op.getStrides() ||
        isAll(filter, 1) || !toLast || toLast.getPermutation() != ArrayRef<int64_t>{0, 2, 3, 1}) {
      return failure();
    }
    tn::Dims in = tn::getDims(toLast.getX().getType());
    tn::Dims out = tn::getDims(op.getType());
    for (unsigned i : {0u, 1u}) {
      if (tn::constantDim(in[2 + i]) != tn::constantDim(out[1 + i] * filter[i]) ||
          !tn::constantDim(in[2 + i])) {
        return failure();
      }
    }
    auto constant = [&](int64_t value) { return rewriter.getAffineConstantExpr(value); };
    Value split = reshape(rewriter, op.getLoc(), toLast.getX(),
                          {in[0], in[1], out[1], constant(filter[0]), out[2], constant(filter[1])});
    Value patches = transpose(rewriter, op.getLoc(), split, {0, 2, 4, 1, 3, 5});
    int64_t length =
        tensorType(op.getWeight()).getNumElements() / tensorType(op.getWeight()).getDimSize(0);
    Value rows =
        reshape(rewriter, op.getLoc(), patches, {out[0], out[1], out[2], constant(length)});
    replaceByProduct(rewriter, op, rows);
    return success();
  }
};

} // namespace

LogicalResult convsToProducts(ModuleOp module, tn::WeightStore &) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<Pointwise, Patches>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
