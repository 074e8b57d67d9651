// One rewrite pattern for all functions: operands are brought to the width the formula computes in,
// the formula is built, the result rounded once. Relies on MathFormulas.h for the formulas.
#include "compiler/codegen/common/math/VectorMath.h"

#include "compiler/codegen/common/math/MathFormulas.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tenon::codegen {

namespace {

Type withElement(Type type, Type element) {
  if (VectorType vector = dyn_cast<VectorType>(type)) {
    return vector.clone(element);
  }
  return element;
}

Value convert(OpBuilder &builder, Location loc, Value value, Type to) {
  unsigned from = getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  unsigned width = getElementTypeOrSelf(to).getIntOrFloatBitWidth();
  if (from == width) {
    return value;
  }
  return from < width ? arith::ExtFOp::create(builder, loc, to, value).getResult()
                      : arith::TruncFOp::create(builder, loc, to, value).getResult();
}

struct Function {
  StringRef name;
  /// For f16, bf16 and f32; null if those take the way through f64.
  formula::Formula narrow;
  /// For f64; null if that takes the narrow one, with its precision and range.
  formula::Formula wide;
};

class ExpandFunction : public RewritePattern {
public:
  ExpandFunction(const Function &function, MLIRContext *context)
      : RewritePattern(function.name, /*benefit=*/1, context), function(function) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    Type type = op->getResult(0).getType();
    FloatType element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
    if (!element) {
      return failure();
    }
    bool isWide = !function.narrow || (element.getWidth() == 64 && function.wide);
    Type computed = withElement(type, isWide ? rewriter.getF64Type() : rewriter.getF32Type());
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(convert(rewriter, op->getLoc(), operand, computed));
    }
    formula::Formula formula = isWide ? function.wide : function.narrow;
    Value result = formula(rewriter, op->getLoc(), operands);
    rewriter.replaceOp(op, convert(rewriter, op->getLoc(), result, type));
    return success();
  }

private:
  Function function;
};

/// x^2 and x^3, which models write as powers.
struct SmallPower : OpRewritePattern<math::PowFOp> {
  explicit SmallPower(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}

  LogicalResult matchAndRewrite(math::PowFOp op, PatternRewriter &rewriter) const override {
    APFloat exponent(0.0);
    if (!matchPattern(op.getRhs(), m_ConstantFloat(&exponent))) {
      return failure();
    }
    double value = exponent.convertToDouble();
    if (value != 2.0 && value != 3.0) {
      return failure();
    }
    Value x = op.getLhs();
    Value result = arith::MulFOp::create(rewriter, op.getLoc(), x, x);
    if (value == 3.0) {
      result = arith::MulFOp::create(rewriter, op.getLoc(), result, x);
    }
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct ExpandRsqrt : OpRewritePattern<math::RsqrtOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::RsqrtOp op, PatternRewriter &rewriter) const override {
    Type type = op.getType();
    Type element = getElementTypeOrSelf(type);
    TypedAttr one = rewriter.getFloatAttr(element, 1.0);
    if (VectorType vector = dyn_cast<VectorType>(type)) {
      one = DenseElementsAttr::get(vector, Attribute(one));
    }
    Value root = math::SqrtOp::create(rewriter, op.getLoc(), op.getOperand());
    Value oneValue = arith::ConstantOp::create(rewriter, op.getLoc(), one);
    rewriter.replaceOpWithNewOp<arith::DivFOp>(op, oneValue, root);
    return success();
  }
};

/// Integer powers by repeated squaring, modulo 2^width; exponents count as unsigned.
struct ExpandIntegerPower : OpRewritePattern<math::IPowIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::IPowIOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Type type = op.getType();
    Type element = getElementTypeOrSelf(type);
    auto constant = [&](int64_t value) -> Value {
      TypedAttr attr = rewriter.getIntegerAttr(element, value);
      if (VectorType vector = dyn_cast<VectorType>(type)) {
        attr = DenseElementsAttr::get(vector, Attribute(attr));
      }
      return arith::ConstantOp::create(rewriter, loc, attr);
    };
    Value zero = constant(0);
    Value one = constant(1);
    Value begin = arith::ConstantIndexOp::create(rewriter, loc, 0);
    Value end = arith::ConstantIndexOp::create(rewriter, loc, element.getIntOrFloatBitWidth());
    Value step = arith::ConstantIndexOp::create(rewriter, loc, 1);
    scf::ForOp loop = scf::ForOp::create(
        rewriter, loc, begin, end, step, ValueRange{one, op.getLhs(), op.getRhs()},
        [&](OpBuilder &builder, Location, Value, ValueRange state) {
          Value bit = arith::AndIOp::create(builder, loc, state[2], one);
          Value isSet = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bit, zero);
          Value times = arith::MulIOp::create(builder, loc, state[0], state[1]);
          Value power = arith::SelectOp::create(builder, loc, isSet, times, state[0]);
          Value square = arith::MulIOp::create(builder, loc, state[1], state[1]);
          Value rest = arith::ShRUIOp::create(builder, loc, state[2], one);
          scf::YieldOp::create(builder, loc, ValueRange{power, square, rest});
        });
    rewriter.replaceOp(op, loop.getResult(0));
    return success();
  }
};

Value splat(OpBuilder &builder, Location loc, Type type, Attribute element) {
  ShapedType shaped = dyn_cast<ShapedType>(type);
  TypedAttr value =
      shaped ? TypedAttr(DenseElementsAttr::get(shaped, element)) : cast<TypedAttr>(element);
  return arith::ConstantOp::create(builder, loc, value);
}

/// f64 to f32, rounded to odd: what is not exact has its last bit set, so that rounding the result
/// again gives what rounding `x` once would.
Value roundToOdd(OpBuilder &b, Location loc, Value x) {
  Type single = withElement(x.getType(), b.getF32Type());
  Type word = withElement(x.getType(), b.getI32Type());
  Value zero = splat(b, loc, x.getType(), b.getF64FloatAttr(0));
  Value none = splat(b, loc, word, b.getI32IntegerAttr(0));
  Value up = splat(b, loc, word, b.getI32IntegerAttr(1));
  Value down = splat(b, loc, word, b.getI32IntegerAttr(-1));
  Value nearest = arith::TruncFOp::create(b, loc, single, x);
  Value back = arith::ExtFOp::create(b, loc, x.getType(), nearest);
  auto compare = [&](arith::CmpFPredicate predicate, Value left, Value right) -> Value {
    return arith::CmpFOp::create(b, loc, predicate, left, right);
  };
  Value isPositive = compare(arith::CmpFPredicate::OGT, x, zero);
  Value isFarther =
      arith::SelectOp::create(b, loc, isPositive, compare(arith::CmpFPredicate::OGT, back, x),
                              compare(arith::CmpFPredicate::OLT, back, x));
  Value bits = arith::BitcastOp::create(b, loc, word, nearest);
  Value last = arith::AndIOp::create(b, loc, bits, up);
  Value isEven = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, last, none);
  Value moves = arith::AndIOp::create(b, loc, isEven, compare(arith::CmpFPredicate::ONE, back, x));
  Value step = arith::SelectOp::create(b, loc, isFarther, down, up);
  step = arith::SelectOp::create(b, loc, moves, step, none);
  return arith::BitcastOp::create(b, loc, single, arith::AddIOp::create(b, loc, bits, step));
}

/// x86 rounds f64 to f16 and bf16 by library calls only, which LLVM also makes of a rounding to f32
/// that one to 16 bits follows.
struct RoundThroughF32 : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    arith::TruncFOp first = op.getIn().getDefiningOp<arith::TruncFOp>();
    Value wide = first ? first.getIn() : op.getIn();
    bool isNarrow = getElementTypeOrSelf(op.getType()).getIntOrFloatBitWidth() == 16;
    if (!getElementTypeOrSelf(wide.getType()).isF64() || !isNarrow) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(),
                                                 roundToOdd(rewriter, op.getLoc(), wide));
    return success();
  }
};

/// To the nearest bf16, ties to even, and any NaN to one. That is chosen before the rounding:
/// behind it LLVM would select lanes of bf16, of which most x86 levels have no vectors, one by one.
struct RoundToBf16 : OpRewritePattern<arith::TruncFOp> {
  // Before upstream's, which selects behind the rounding.
  explicit RoundToBf16(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}

  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    Value x = op.getIn();
    if (!getElementTypeOrSelf(op.getType()).isBF16() ||
        !getElementTypeOrSelf(x.getType()).isF32()) {
      return failure();
    }
    Location loc = op.getLoc();
    Type word = withElement(x.getType(), rewriter.getI32Type());
    Type half = withElement(x.getType(), rewriter.getI16Type());
    auto number = [&](int32_t value) {
      return splat(rewriter, loc, word, rewriter.getI32IntegerAttr(value));
    };
    Value isNan = arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::UNO, x, x);
    Value bits = arith::BitcastOp::create(rewriter, loc, word, x);
    bits = arith::SelectOp::create(rewriter, loc, isNan, number(0x7fc00000), bits);
    Value sixteen = number(16);
    Value last = arith::AndIOp::create(
        rewriter, loc, arith::ShRUIOp::create(rewriter, loc, bits, sixteen), number(1));
    Value sum = arith::AddIOp::create(rewriter, loc, bits, number(0x7fff));
    sum = arith::AddIOp::create(rewriter, loc, sum, last);
    Value rounded = arith::ShRUIOp::create(rewriter, loc, sum, sixteen);
    Value stored = arith::TruncIOp::create(rewriter, loc, half, rounded);
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), stored);
    return success();
  }
};

constexpr Function kFunctions[] = {
    {"math.exp", formula::f32::exp, formula::f64::exp},
    {"math.exp2", nullptr, formula::f64::exp2},
    {"math.expm1", formula::f32::expm1, formula::f64::expm1},
    {"math.log", formula::f32::log, formula::f64::log},
    {"math.log2", nullptr, formula::f64::log2},
    {"math.log10", nullptr, formula::f64::log10},
    {"math.log1p", formula::f32::log1p, formula::f64::log1p},
    {"math.sin", nullptr, formula::f64::sin},
    {"math.cos", nullptr, formula::f64::cos},
    {"math.tan", nullptr, formula::f64::tan},
    {"math.asin", nullptr, formula::f64::asin},
    {"math.acos", nullptr, formula::f64::acos},
    {"math.atan", nullptr, formula::f64::atan},
    {"math.sinh", nullptr, formula::f64::sinh},
    {"math.cosh", nullptr, formula::f64::cosh},
    {"math.tanh", formula::f32::tanh, formula::f64::tanh},
    {"math.asinh", nullptr, formula::f64::asinh},
    {"math.acosh", nullptr, formula::f64::acosh},
    {"math.atanh", nullptr, formula::f64::atanh},
    {"math.erf", formula::f32::erf, formula::f64::erf},
    {"math.powf", nullptr, formula::f64::pow},
    {"arith.remf", nullptr, formula::f64::remainder},
};

} // namespace

void populateExpandMathPatterns(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  // The formulas of one dialect use operations of the others.
  context->loadDialect<arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                       vector::VectorDialect>();
  for (const Function &function : kFunctions) {
    patterns.add<ExpandFunction>(function, context);
  }
  patterns.add<SmallPower, ExpandRsqrt, ExpandIntegerPower>(context);
}

void populateExpandRoundingPatterns(RewritePatternSet &patterns, bool hasBf16) {
  patterns.getContext()->loadDialect<arith::ArithDialect>();
  patterns.add<RoundThroughF32>(patterns.getContext());
  if (!hasBf16) {
    patterns.add<RoundToBf16>(patterns.getContext());
    arith::populateExpandBFloat16Patterns(patterns);
  }
}

} // namespace tenon::codegen
