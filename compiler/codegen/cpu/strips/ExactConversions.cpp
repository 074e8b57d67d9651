// Between two fused operations a value of 16 bits is rounded and widened again, and one that
// becomes an integer is held in its range. What follows from the operations before is left out
// here. Relies on ScalarBody's forms of rounding and saturation.
#include "compiler/codegen/cpu/strips/ExactConversions.h"
#include "compiler/codegen/common/math/ScalarBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Operations looked through on the way to a value that is known.
constexpr int kMaxSteps = 6;

std::optional<APFloat> constantOf(Value value) {
  APFloat number(0.0f);
  return matchPattern(value, m_ConstantFloat(&number)) ? std::optional(number) : std::nullopt;
}

/// Whether a wide float is a number of the type `narrow`, or NaN.
bool isExact(Value wide, FloatType narrow, int steps = kMaxSteps) {
  if (std::optional<APFloat> constant = constantOf(wide)) {
    bool losesInfo = false;
    constant->convert(narrow.getFloatSemantics(), llvm::RoundingMode::NearestTiesToEven,
                      &losesInfo);
    return !losesInfo;
  }
  Operation *op = wide.getDefiningOp();
  if (!op || steps == 0) {
    return false;
  }
  if (arith::ExtFOp extended = dyn_cast<arith::ExtFOp>(op)) {
    return getElementTypeOrSelf(extended.getIn()) == narrow;
  }
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    return getElementTypeOrSelf(op->getOperand(0)).getIntOrFloatBitWidth() <= 8;
  }
  // Roundings to integers too: a number of the type that is not one has neighbours that are.
  bool givesOperand =
      isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::NegFOp,
          math::AbsFOp, math::FloorOp, math::CeilOp, math::RoundEvenOp, vector::BroadcastOp>(op);
  if (!givesOperand && !isa<arith::SelectOp>(op)) {
    return false;
  }
  return llvm::all_of(op->getOperands().drop_front(givesOperand ? 0 : 1),
                      [&](Value operand) { return isExact(operand, narrow, steps - 1); });
}

bool isMarked(std::optional<arith::FastMathFlags> flags) {
  return flags && arith::bitEnumContainsAny(*flags, kForStorage);
}

/// widen(round(x)) -> x
struct DropRounding : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    arith::TruncFOp rounded = op.getIn().getDefiningOp<arith::TruncFOp>();
    FloatType narrow = cast<FloatType>(getElementTypeOrSelf(op.getIn()));
    if (!rounded || rounded.getIn().getType() != op.getType() || narrow.getWidth() != 16 ||
        !isExact(rounded.getIn(), narrow)) {
      return failure();
    }
    rewriter.replaceOp(op, rounded.getIn());
    return success();
  }
};

/// The same of bf16 that is rounded only because it would be stored so, not because the model casts
/// to it or from it.
struct DropStorage : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    arith::TruncFOp rounded = op.getIn().getDefiningOp<arith::TruncFOp>();
    if (!rounded || rounded.getIn().getType() != op.getType() ||
        !getElementTypeOrSelf(op.getIn()).isBF16() || !isMarked(rounded.getFastmath()) ||
        !isMarked(op.getFastmath())) {
      return failure();
    }
    rewriter.replaceOp(op, rounded.getIn());
    return success();
  }
};

/// What is known of a float: NaN has no range.
struct ValueInterval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

std::optional<ValueInterval> rangeOf(Value value, int steps = kMaxSteps) {
  if (std::optional<APFloat> constant = constantOf(value)) {
    double number = constant->convertToDouble();
    return constant->isNaN() ? std::nullopt : std::optional(ValueInterval{number, number});
  }
  Operation *op = value.getDefiningOp();
  if (!op || steps == 0) {
    return std::nullopt;
  }
  auto of = [&](Value operand) { return rangeOf(operand, steps - 1); };
  // a where it stands in that relation to b, which NaN does not, else b.
  bool isHigher = isa<arith::MaxNumFOp>(op), isLower = isa<arith::MinNumFOp>(op);
  Value a = isHigher || isLower ? op->getOperand(0) : Value();
  Value b = isHigher || isLower ? op->getOperand(1) : Value();
  if (arith::SelectOp select = dyn_cast<arith::SelectOp>(op)) {
    arith::CmpFOp compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
    using P = arith::CmpFPredicate;
    a = select.getTrueValue();
    b = select.getFalseValue();
    if (!compare || compare.getLhs() != a || compare.getRhs() != b) {
      return std::nullopt;
    }
    isHigher = compare.getPredicate() == P::OGT || compare.getPredicate() == P::OGE;
    isLower = compare.getPredicate() == P::OLT || compare.getPredicate() == P::OLE;
  }
  std::optional<ValueInterval> bound = isHigher || isLower ? of(b) : std::nullopt;
  if (!bound) {
    return std::nullopt;
  }
  ValueInterval other = of(a).value_or(ValueInterval());
  return isHigher ? ValueInterval{bound->low, std::max(bound->high, other.high)}
                  : ValueInterval{std::min(bound->low, other.low), bound->high};
}

/// max(x, c) -> x, min(x, c) -> x
template <typename Op> struct DropBound : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    std::optional<APFloat> bound = constantOf(op.getRhs());
    std::optional<ValueInterval> range = bound ? rangeOf(op.getLhs()) : std::nullopt;
    constexpr bool isMaximum = std::is_same_v<Op, arith::MaxNumFOp>;
    double number = bound ? bound->convertToDouble() : 0;
    if (!range || !(isMaximum ? range->low >= number : range->high <= number)) {
      return failure();
    }
    rewriter.replaceOp(op, op.getLhs());
    return success();
  }
};

/// x == x -> true
struct DropNanTest : OpRewritePattern<arith::CmpFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::CmpFOp op, PatternRewriter &rewriter) const override {
    if (op.getPredicate() != arith::CmpFPredicate::OEQ || op.getLhs() != op.getRhs() ||
        !rangeOf(op.getLhs())) {
      return failure();
    }
    TypedAttr yes = rewriter.getBoolAttr(true);
    if (VectorType vector = dyn_cast<VectorType>(op.getType())) {
      yes = DenseElementsAttr::get(vector, true);
    }
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, yes);
    return success();
  }
};

/// The float that is converted to an integer.
Value convertedBy(Value integer) {
  Operation *op = integer.getDefiningOp();
  return isa_and_nonnull<arith::FPToSIOp, arith::FPToUIOp>(op) ? op->getOperand(0) : Value();
}

/// x >= top ? most : integer(min(x, top)) -> integer(min(x, top)), where `top` is `most`: a float
/// of fewer bits would be rounded up.
struct DropTop : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::SelectOp op, PatternRewriter &rewriter) const override {
    arith::CmpFOp compare = op.getCondition().getDefiningOp<arith::CmpFOp>();
    Value held = convertedBy(op.getFalseValue());
    APInt most;
    if (!compare || compare.getPredicate() != arith::CmpFPredicate::OGE || !held ||
        !matchPattern(op.getTrueValue(), m_ConstantInt(&most))) {
      return failure();
    }
    std::optional<APFloat> top = constantOf(compare.getRhs());
    bool isUnsigned = isa<arith::FPToUIOp>(op.getFalseValue().getDefiningOp());
    llvm::APSInt integer(most.getBitWidth(), isUnsigned);
    bool isWhole = false;
    if (!top ||
        top->convertToInteger(integer, llvm::RoundingMode::TowardZero, &isWhole) != APFloat::opOK ||
        !isWhole || integer != llvm::APSInt(most, isUnsigned)) {
      return failure();
    }
    arith::MinNumFOp minimum = held.getDefiningOp<arith::MinNumFOp>();
    bool isHeld =
        minimum && minimum.getLhs() == compare.getLhs() && minimum.getRhs() == compare.getRhs();
    std::optional<ValueInterval> range = held == compare.getLhs() ? rangeOf(held) : std::nullopt;
    if (!isHeld && !(range && range->high <= top->convertToDouble())) {
      return failure();
    }
    rewriter.replaceOp(op, op.getFalseValue());
    return success();
  }
};

} // namespace

void populateStorageConversionPatterns(RewritePatternSet &patterns) {
  patterns.add<DropStorage>(patterns.getContext());
}

void populateExactConversionPatterns(RewritePatternSet &patterns) {
  patterns.add<DropRounding, DropBound<arith::MaxNumFOp>, DropBound<arith::MinNumFOp>, DropNanTest,
               DropTop>(patterns.getContext());
}

} // namespace tenon::codegen::cpu
