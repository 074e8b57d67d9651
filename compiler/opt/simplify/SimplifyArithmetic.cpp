// Identities and exact rewrites of elementwise operations, as patterns of `simplify`.
// Relies on IEEE arithmetic: a rewrite keeps every bit that the model can tell apart.
#include "compiler/opt/Match.h"
#include "compiler/opt/Patterns.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr unsigned kDepth = 8;

/// No element is -0 (but for what underflows): sums of products begin with 0, and a + b is -0 only
/// where both are.
bool isNeverMinusZero(Value value, Constants &constants, unsigned depth = kDepth) {
  Operation *op = value.getDefiningOp();
  if (!isa<FloatType>(getElementTypeOrSelf(value))) {
    return true;
  }
  if (!op || depth == 0) {
    return false;
  }
  auto isNever = [&](Value operand) { return isNeverMinusZero(operand, constants, depth - 1); };
  auto isPositive = [&](Value factor) { return constants.scalar(factor).value_or(-1) > 0; };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<tn::MatmulOp, tn::ConvOp, tn::ConvTransposeOp, tn::ExpOp, tn::AbsOp, tn::SigmoidOp,
            tn::SoftmaxOp, tn::AttentionOp, tn::IotaOp>([](Operation *) { return true; })
      .Case<tn::ReshapeOp, tn::TransposeOp, tn::BroadcastOp, tn::SliceOp>(
          [&](Operation *) { return isNever(op->getOperand(0)); })
      .Case([&](tn::AddOp) { return isNever(op->getOperand(0)) || isNever(op->getOperand(1)); })
      .Case([&](tn::MulOp) {
        return (isPositive(op->getOperand(0)) && isNever(op->getOperand(1))) ||
               (isPositive(op->getOperand(1)) && isNever(op->getOperand(0)));
      })
      .Case([&](tn::DivOp) { return isPositive(op->getOperand(1)) && isNever(op->getOperand(0)); })
      .Case([](tn::ReduceOp sum) {
        return sum.getKind() == tn::ReduceKind::sum || sum.getKind() == tn::ReduceKind::mean;
      })
      .Case([&](tn::ConstantOp) {
        std::optional<double> number = constants.scalar(value);
        return number && !(*number == 0 && std::signbit(*number));
      })
      .Case([&](tn::CastOp cast) {
        Type from = getElementTypeOrSelf(cast.getX()), to = getElementTypeOrSelf(value);
        bool isExact =
            !isa<FloatType>(from) || from.getIntOrFloatBitWidth() <= to.getIntOrFloatBitWidth();
        return isExact && isNever(cast.getX());
      })
      .Default([](Operation *) { return false; });
}

/// Nobody who reads the value tells -0 from 0.
bool isSignOfZeroLost(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    return isa<tn::MatmulOp, tn::ConvOp, tn::ConvTransposeOp, tn::SoftmaxOp, tn::ExpOp,
               tn::CompareOp, tn::AbsOp>(user);
  });
}

/// x - 0 and x + -0 are x; x + 0 of -0 is 0.
template <typename Op> bool isNeutral(Op op, const WithScalar &match, Constants &constants) {
  constexpr bool isSum = std::is_same_v<Op, tn::AddOp>;
  if constexpr (!isSum && !std::is_same_v<Op, tn::SubOp>) {
    return match.scalar == 1;
  }
  bool addsMinusZero = std::signbit(match.scalar) == isSum;
  return match.scalar == 0 && (addsMinusZero || isNeverMinusZero(match.value, constants) ||
                               isSignOfZeroLost(op.getResult()));
}

/// x + 0, x - 0, x * 1, x / 1, x ^ 1 -> x
template <typename Op> struct DropNeutral : Pattern<Op> {
  using Pattern<Op>::Pattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Constants constants = this->constants;
    std::optional<WithScalar> match = matchScalar<Op>(op.getResult(), constants);
    if (!match || !isNeutral(op, *match, constants)) {
      return failure();
    }
    rewriter.replaceOp(op, match->value);
    return success();
  }
};

/// x / 2^n -> x * 2^-n, which rounds equally and is a cheaper instruction.
struct DivideByPowerOfTwo : Pattern<tn::DivOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::DivOp op, PatternRewriter &rewriter) const override {
    std::optional<double> divisor = constants.scalar(op.getB());
    FloatType element = dyn_cast<FloatType>(op.getType().getElementType());
    int exponent = 0;
    if (!divisor || !element || !std::isfinite(*divisor) ||
        std::abs(std::frexp(*divisor, &exponent)) != 0.5 || std::abs(exponent) > 10) {
      return failure(); // small exponents only: the inverse is a normal number in f16 too
    }
    DenseElementsAttr inverse = DenseElementsAttr::get(
        tensorType(op.getB()), rewriter.getFloatAttr(element, 1.0 / *divisor));
    Value scale = tn::ConstantOp::create(rewriter, op.getLoc(), op.getB().getType(), inverse);
    rewriter.replaceOpWithNewOp<tn::MulOp>(op, op.getType(), op.getA(), scale);
    return success();
  }
};

/// neg(neg(x)), not(not(x)) -> x
template <typename Op> struct DropDouble : Pattern<Op> {
  using Pattern<Op>::Pattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Op inner = op.getX().template getDefiningOp<Op>();
    if (!inner) {
      return failure();
    }
    rewriter.replaceOp(op, inner.getX());
    return success();
  }
};

/// x ^ 2 -> x * x
struct SquareByProduct : Pattern<tn::PowOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::PowOp op, PatternRewriter &rewriter) const override {
    if (constants.scalar(op.getB()) != 2.0 || op.getA().getType() != op.getType()) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::MulOp>(op, op.getType(), op.getA(), op.getA());
    return success();
  }
};

/// min(max(x, lo), hi) -> clamp. The bounds of tn.clamp are exact doubles.
struct MinOfMaxToClamp : Pattern<tn::MinOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::MinOp op, PatternRewriter &rewriter) const override {
    Constants constants = this->constants;
    std::optional<WithScalar> upper = matchScalar<tn::MinOp>(op.getResult(), constants);
    std::optional<WithScalar> lower =
        upper ? matchScalar<tn::MaxOp>(upper->value, constants) : std::nullopt;
    if (!lower || !isa<FloatType>(op.getType().getElementType()) || std::isnan(upper->scalar) ||
        std::isnan(lower->scalar)) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::ClampOp>(op, op.getType(), lower->value,
                                             rewriter.getF64FloatAttr(lower->scalar),
                                             rewriter.getF64FloatAttr(upper->scalar));
    return success();
  }
};

/// and(x, true), or(x, false) -> x, broadcast to the result
template <typename Op> struct DropNeutralBool : Pattern<Op> {
  using Pattern<Op>::Pattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().getElementType().isInteger(1)) {
      return failure();
    }
    double neutral = std::is_same_v<Op, tn::AndOp> ? 1.0 : 0.0;
    for (auto [value, other] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      Value source = other;
      if (tn::BroadcastOp broadcast = source.template getDefiningOp<tn::BroadcastOp>()) {
        source = broadcast.getX();
      }
      if (this->constants.scalar(source) == neutral) {
        rewriter.replaceOpWithNewOp<tn::BroadcastOp>(op, op.getType(), value);
        return success();
      }
    }
    return failure();
  }
};

/// select with a constant condition -> the branch, broadcast to the result
struct SelectConstant : Pattern<tn::SelectOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::SelectOp op, PatternRewriter &rewriter) const override {
    std::optional<double> condition = constants.scalar(op.getCondition());
    if (!condition) {
      return failure();
    }
    Value chosen = *condition != 0 ? op.getA() : op.getB();
    rewriter.replaceOpWithNewOp<tn::BroadcastOp>(op, op.getType(), chosen);
    return success();
  }
};

/// Positions 0, 1, 2... are never below zero: `iota >= 0` -> true. Exporters write this test for
/// masks that hide nothing.
struct CountIsNotNegative : Pattern<tn::CompareOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::CompareOp op, PatternRewriter &rewriter) const override {
    Value counted = op.getA();
    while (Operation *movement = counted.getDefiningOp()) {
      if (!isa<tn::ReshapeOp, tn::BroadcastOp>(movement)) {
        break;
      }
      counted = movement->getOperand(0);
    }
    tn::IotaOp iota = counted.getDefiningOp<tn::IotaOp>();
    std::optional<double> bound = constants.scalar(op.getB());
    if (!iota || !bound || op.getPredicate() != tn::Predicate::ge) {
      return failure();
    }
    std::optional<double> start = constants.scalar(iota.getStart());
    std::optional<double> step = constants.scalar(iota.getStep());
    if (!start || !step || *step < 0 || *start < *bound) {
      return failure();
    }
    RankedTensorType scalar = RankedTensorType::get({}, rewriter.getI1Type());
    Value yes =
        tn::ConstantOp::create(rewriter, op.getLoc(), scalar, DenseElementsAttr::get(scalar, true));
    rewriter.replaceOpWithNewOp<tn::BroadcastOp>(op, op.getType(), yes);
    return success();
  }
};

} // namespace

void addArithmeticPatterns(RewritePatternSet &patterns, tn::WeightStore &weights) {
  patterns.add<DropNeutral<tn::AddOp>, DropNeutral<tn::SubOp>, DropNeutral<tn::MulOp>,
               DropNeutral<tn::DivOp>, DropNeutral<tn::PowOp>, DivideByPowerOfTwo,
               DropDouble<tn::NegOp>, DropDouble<tn::NotOp>, SquareByProduct, MinOfMaxToClamp,
               DropNeutralBool<tn::AndOp>, DropNeutralBool<tn::OrOp>, SelectConstant,
               CountIsNotNegative>(patterns.getContext(), weights);
}

} // namespace tenon::opt
