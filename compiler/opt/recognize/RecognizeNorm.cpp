// Layer and RMS normalization written out become tn.layer_norm and tn.rms_norm.
// Relies on simplify (squares are products); the normalized axes must be the last ones.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// The first of the trailing axes that a mean runs over, keeping them as ones; nothing for other
/// axes.
std::optional<int64_t> trailingMean(Value mean, Value of) {
  tn::ReduceOp reduce = mean.getDefiningOp<tn::ReduceOp>();
  if (!reduce || reduce.getKind() != tn::ReduceKind::mean || reduce.getX() != of ||
      !reduce.getKeepdims() || reduce.getAxes().empty()) {
    return std::nullopt;
  }
  int64_t rank = tensorType(of).getRank();
  int64_t first = rank - reduce.getAxes().size();
  for (auto [i, axis] : llvm::enumerate(reduce.getAxes())) {
    if (axis != first + static_cast<int64_t>(i)) {
      return std::nullopt;
    }
  }
  return first;
}

bool isSquareOf(Value value, Value x, Constants &constants) {
  tn::MulOp product = value.getDefiningOp<tn::MulOp>();
  std::optional<WithScalar> power = matchScalar<tn::PowOp>(value, constants);
  return (product && product.getA() == x && product.getB() == x) ||
         (power && power->value == x && power->scalar == 2);
}

/// x / sqrt(mean(x^2) + epsilon) over the dims from `axis` on.
struct Normalized {
  Value x;
  int64_t axis;
  double epsilon;
};

/// mean(x^2) + epsilon, read by nobody else.
std::optional<Normalized> matchMeanSquare(Value value, Value x, Constants &constants) {
  std::optional<WithScalar> sum = matchScalar<tn::AddOp>(value, constants);
  tn::ReduceOp mean = sum ? sum->value.getDefiningOp<tn::ReduceOp>() : tn::ReduceOp();
  if (!mean || !value.hasOneUse() || !mean->hasOneUse() || !mean.getX().hasOneUse() ||
      sum->scalar < 0 || !isSquareOf(mean.getX(), x, constants)) {
    return std::nullopt;
  }
  std::optional<int64_t> axis = trailingMean(mean.getResult(), mean.getX());
  return axis ? std::optional<Normalized>(Normalized{x, *axis, sum->scalar}) : std::nullopt;
}

/// The argument of a square root that nobody else reads.
Value matchSqrt(Value value) {
  tn::SqrtOp root = value.getDefiningOp<tn::SqrtOp>();
  return root && root->hasOneUse() ? root.getX() : nullptr;
}

/// v of 1 / sqrt(v) in its spellings.
Value matchInverseSqrt(Value value, Constants &constants) {
  if (!value.hasOneUse()) {
    return nullptr;
  }
  if (tn::RsqrtOp rsqrt = value.getDefiningOp<tn::RsqrtOp>()) {
    return rsqrt.getX();
  }
  if (tn::ReciprocalOp reciprocal = value.getDefiningOp<tn::ReciprocalOp>()) {
    return matchSqrt(reciprocal.getX());
  }
  tn::DivOp quotient = value.getDefiningOp<tn::DivOp>();
  return quotient && constants.scalar(quotient.getA()) == 1.0 ? matchSqrt(quotient.getB())
                                                              : nullptr;
}

/// The normalization that an operation computes, as a quotient or a product.
std::optional<Normalized> matchNormalized(Operation *op, Constants &constants) {
  if (tn::DivOp quotient = dyn_cast<tn::DivOp>(op)) {
    Value square = matchSqrt(quotient.getB());
    return square ? matchMeanSquare(square, quotient.getA(), constants) : std::nullopt;
  }
  for (unsigned i : {0u, 1u}) {
    Value square = matchInverseSqrt(op->getOperand(1 - i), constants);
    std::optional<Normalized> match =
        square ? matchMeanSquare(square, op->getOperand(i), constants) : std::nullopt;
    if (match) {
      return match;
    }
  }
  return std::nullopt;
}

/// x of x - mean(x), when the difference is read by the square and the quotient alone.
Value matchCentred(const Normalized &match) {
  tn::SubOp difference = match.x.getDefiningOp<tn::SubOp>();
  // The square reads it twice when it is a product.
  if (!difference || match.x.getNumUses() > 3) {
    return nullptr;
  }
  std::optional<int64_t> axis = trailingMean(difference.getB(), difference.getA());
  return axis == match.axis && difference.getB().hasOneUse() ? difference.getA() : nullptr;
}

template <typename Op> struct NormPattern : Pattern<Op> {
  using Pattern<Op>::Pattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Constants constants = this->constants;
    std::optional<Normalized> match = matchNormalized(op, constants);
    if (!match || !isa<FloatType>(op.getType().getElementType())) {
      return failure();
    }
    FloatAttr epsilon = rewriter.getF64FloatAttr(match->epsilon);
    IntegerAttr axis = rewriter.getI64IntegerAttr(match->axis);
    if (Value x = matchCentred(*match); x && x.getType() == op.getType()) {
      rewriter.replaceOpWithNewOp<tn::LayerNormOp>(op, op.getType(), x, Value(), Value(), axis,
                                                   epsilon);
      return success();
    }
    if (match->x.getType() != op.getType()) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::RmsNormOp>(op, op.getType(), match->x, Value(), axis, epsilon);
    return success();
  }
};

/// The operand with the shape of the normalized dims, if it has that up to leading ones.
Value asParameter(PatternRewriter &rewriter, Value value, Value x, int64_t axis) {
  tn::Dims wanted = tn::getDims(x.getType());
  wanted.erase(wanted.begin(), wanted.begin() + axis);
  tn::Dims dims = tn::getDims(value.getType());
  if (dims.size() < wanted.size() ||
      !llvm::all_of(ArrayRef(dims).drop_back(wanted.size()), isOne) ||
      !tn::sameDims(ArrayRef(dims).take_back(wanted.size()), wanted)) {
    return nullptr;
  }
  return reshape(rewriter, value.getLoc(), value, wanted);
}

/// norm(x) * scale -> norm(x) scale
template <typename Norm> struct ScalePattern : Pattern<tn::MulOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::MulOp op, PatternRewriter &rewriter) const override {
    for (auto [value, other] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      Norm norm = value.template getDefiningOp<Norm>();
      if (!norm || norm.getScale() || !norm->hasOneUse() || !comesBefore(other, norm)) {
        continue;
      }
      if constexpr (std::is_same_v<Norm, tn::LayerNormOp>) {
        if (norm.getBias()) {
          continue;
        }
      }
      Value scale = asParameter(rewriter, other, norm.getX(), norm.getAxis());
      if (!scale) {
        continue;
      }
      replace(rewriter, op, norm, scale);
      return success();
    }
    return failure();
  }

private:
  /// A gate that depends on the norm itself is no parameter; constants and arguments are.
  static bool comesBefore(Value other, Norm norm) {
    return Constants::isConstant(other) || isa<BlockArgument>(other);
  }
  static void replace(PatternRewriter &rewriter, tn::MulOp op, tn::LayerNormOp norm, Value scale) {
    rewriter.replaceOpWithNewOp<tn::LayerNormOp>(op, op.getType(), norm.getX(), scale, Value(),
                                                 norm.getAxisAttr(), norm.getEpsilonAttr());
  }
  static void replace(PatternRewriter &rewriter, tn::MulOp op, tn::RmsNormOp norm, Value scale) {
    rewriter.replaceOpWithNewOp<tn::RmsNormOp>(op, op.getType(), norm.getX(), scale,
                                               norm.getAxisAttr(), norm.getEpsilonAttr());
  }
};

/// layer_norm(x) + bias -> layer_norm(x) bias
struct BiasPattern : Pattern<tn::AddOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::AddOp op, PatternRewriter &rewriter) const override {
    for (auto [value, other] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      tn::LayerNormOp norm = value.getDefiningOp<tn::LayerNormOp>();
      if (!norm || norm.getBias() || !norm->hasOneUse() || !Constants::isConstant(other)) {
        continue;
      }
      Value bias = asParameter(rewriter, other, norm.getX(), norm.getAxis());
      if (!bias) {
        continue;
      }
      rewriter.replaceOpWithNewOp<tn::LayerNormOp>(op, op.getType(), norm.getX(), norm.getScale(),
                                                   bias, norm.getAxisAttr(), norm.getEpsilonAttr());
      return success();
    }
    return failure();
  }
};

} // namespace

LogicalResult recognizeNorm(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<NormPattern<tn::DivOp>, NormPattern<tn::MulOp>, ScalePattern<tn::LayerNormOp>,
               ScalePattern<tn::RmsNormOp>, BiasPattern>(module.getContext(), weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
