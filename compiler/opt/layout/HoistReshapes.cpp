// Moves reshapes of leading dims up through products and elementwise operations.
// Relies on the last dim being kept, so that what broadcasts along it is not touched.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// The operand's only dim other than one, if any, is the last.
bool variesAlongLastOnly(Value operand) {
  tn::Dims dims = tn::getDims(operand.getType());
  return dims.empty() || llvm::all_of(ArrayRef(dims).drop_back(), isOne);
}

/// The reshape splits or merges dims before the last, which stays. Where that may be 0, any dims
/// before it make the same number of elements: then they must be the same by themselves.
bool keepsLastDim(tn::ReshapeOp op) {
  tn::Dims in = tn::getDims(op.getX().getType());
  tn::Dims out = tn::getDims(op.getType());
  if (in.size() < 2 || out.size() < 2 || !tn::sameDim(in.back(), out.back())) {
    return false;
  }
  if (tn::constantDim(in.back()).value_or(0) > 0) {
    return true;
  }
  ArrayRef<AffineExpr> inLeading = ArrayRef(in).drop_back(), outLeading = ArrayRef(out).drop_back();
  return tn::sameDim(tn::elementCount(op.getContext(), inLeading),
                     tn::elementCount(op.getContext(), outLeading));
}

/// The result's dims with the last one of the operand.
tn::Dims withLastOf(tn::ReshapeOp op, Value operand) {
  tn::Dims dims = tn::getDims(op.getType());
  dims.back() = tn::getDims(operand.getType()).back();
  return dims;
}

/// An operand that varies along the last dim only, with as few dims as the new rank allows.
Value trimRank(PatternRewriter &rewriter, Value operand, size_t rank) {
  tn::Dims dims = tn::getDims(operand.getType());
  if (dims.size() <= rank) {
    return operand;
  }
  return reshape(rewriter, operand.getLoc(), operand, ArrayRef(dims).take_back(1));
}

/// reshape(matmul(x, w)) -> matmul(reshape(x), w) for a matrix w
struct HoistThroughMatmul : Pattern<tn::ReshapeOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    tn::MatmulOp product = op.getX().getDefiningOp<tn::MatmulOp>();
    if (!product || !product->hasOneUse() || !keepsLastDim(op) || product.getTransposeA() ||
        tensorType(product.getB()).getRank() != 2) {
      return failure();
    }
    Value a = reshape(rewriter, op.getLoc(), product.getA(), withLastOf(op, product.getA()));
    Operation *hoisted = rebuild(rewriter, product, {a, product.getB()}, op.getType());
    rewriter.replaceOp(op, hoisted);
    return success();
  }
};

/// reshape(f(x, bias)) -> f(reshape(x), bias) for an elementwise f
struct HoistThroughElementwise : Pattern<tn::ReshapeOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    Operation *source = op.getX().getDefiningOp();
    if (!source || !source->hasTrait<tn::TnElementwise>() || !source->hasOneUse() ||
        !keepsLastDim(op)) {
      return failure();
    }
    auto isWhole = [&](Value operand) { return sameShape(operand, op.getX()); };
    if (llvm::none_of(source->getOperands(), isWhole) ||
        !llvm::all_of(source->getOperands(), [&](Value operand) {
          return isWhole(operand) || variesAlongLastOnly(operand);
        })) {
      return failure();
    }
    SmallVector<Value> operands;
    for (Value operand : source->getOperands()) {
      operands.push_back(isWhole(operand)
                             ? reshape(rewriter, op.getLoc(), operand, tn::getDims(op.getType()))
                             : trimRank(rewriter, operand, op.getType().getRank()));
    }
    rewriter.replaceOp(op, rebuild(rewriter, source, operands, op.getType()));
    return success();
  }
};

/// reshape(reshape(x)) -> reshape(x), and nothing if the shape is x's own.
struct MeetReshape : Pattern<tn::ReshapeOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::ReshapeOp op, PatternRewriter &rewriter) const override {
    if (op.getX().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    tn::ReshapeOp inner = op.getX().getDefiningOp<tn::ReshapeOp>();
    if (!inner) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::ReshapeOp>(op, op.getType(), inner.getX());
    return success();
  }
};

} // namespace

LogicalResult hoistReshapes(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<HoistThroughMatmul, HoistThroughElementwise, MeetReshape>(module.getContext(),
                                                                         weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
