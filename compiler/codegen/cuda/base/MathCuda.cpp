// Each pattern replaces one operation by a few instructions around ex2, lg2, rcp or rsqrt.approx.
// Relies on the storage type's roundings (truncf, extf) standing beside the math that they bound.
#include "compiler/codegen/cuda/base/MathCuda.h"

#include "compiler/codegen/common/math/Real.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"

#include <array>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using formula::Real;

/// Above those of VectorMath.h.
constexpr unsigned kBenefit = 10;
/// How far the origin and the destination of a value are followed.
constexpr unsigned kDepth = 6;
constexpr double kLog2e = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;

bool has16Bits(Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 16; }

/// Arithmetic through which an error passes without growing much.
bool isPlainArithmetic(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, math::FmaOp, arith::NegFOp,
             arith::SelectOp, arith::MaximumFOp, arith::MinimumFOp, LLVM::MaximumOp,
             LLVM::MinimumOp>(op);
}

/// All that is made of the value is rounded to 16 bits.
bool endsInHalf(Value value, unsigned depth = kDepth) {
  return depth > 0 && llvm::all_of(value.getUsers(), [&](Operation *user) {
           return (isa<arith::TruncFOp>(user) && has16Bits(user->getResult(0).getType())) ||
                  (isPlainArithmetic(user) && endsInHalf(user->getResult(0), depth - 1));
         });
}

/// The value has no more than the precision of 16 bits: one of the operands that make it is an f16
/// or bf16 (constants and the results of reductions are exact next to it).
bool comesFromHalf(Value value, unsigned depth = kDepth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0) {
    return false;
  }
  if (isa<arith::ExtFOp>(op)) {
    return has16Bits(op->getOperand(0).getType());
  }
  return isPlainArithmetic(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
           return comesFromHalf(operand, depth - 1);
         });
}

Real approximate(StringRef instruction, const Real &x, OpBuilder &builder, Location loc) {
  std::string name = ("llvm.nvvm." + instruction).str();
  Value result = LLVM::CallIntrinsicOp::create(builder, loc, builder.getF32Type(),
                                               builder.getStringAttr(name), ValueRange{x})
                     .getResult(0);
  return Real(builder, loc, result);
}
Real exp2Of(const Real &x, OpBuilder &builder, Location loc) {
  return approximate("ex2.approx.ftz.f32", x, builder, loc);
}
Real reciprocal(const Real &x, OpBuilder &builder, Location loc) {
  return approximate("rcp.approx.ftz.f", x, builder, loc);
}

Real rsqrt(const Real &x, OpBuilder &builder, Location loc) {
  return approximate("rsqrt.approx.f", x, builder, loc);
}

/// 2^n * 2^f with n + f = x log2 e in two steps; n saturates at +-126, so that infinities and
/// overflows come out of f by themselves, and NaN too.
Value exp(Value operand, PatternRewriter &rewriter, Location loc) {
  constexpr double kHigh = 1.44269502162933349609375; // log2 e as a float, and the rest
  constexpr double kLow = 1.925963033500011e-8;
  constexpr double kBound = 126;
  /// 1.5 * 2^23, and the exponent bias of a float in the low bits.
  constexpr double kRounder = 12582912.0 + 127;
  Real x(rewriter, loc, operand);
  Real power = x * kHigh;
  power = Real(rewriter, loc, power.create<arith::MaxNumFOp>(Value(power), power.number(-kBound)));
  power = Real(rewriter, loc, power.create<arith::MinNumFOp>(Value(power), power.number(kBound)));
  Real shifted = power + kRounder;
  Real n = shifted - kRounder;
  Real f = x.fma(x.number(kLow), x.fma(x.number(kHigh), -n));
  Real scale = x.fromBits(x.create<arith::ShLIOp>(shifted.bits(), x.integer(23)));
  return exp2Of(f, rewriter, loc) * scale;
}

Value rewriteExp(math::ExpOp op, PatternRewriter &rewriter) {
  Value x = op.getOperand();
  if (!comesFromHalf(x)) {
    return exp(x, rewriter, op.getLoc());
  }
  return exp2Of(Real(rewriter, op.getLoc(), x) * kLog2e, rewriter, op.getLoc());
}

Value rewriteExp2(math::Exp2Op op, PatternRewriter &rewriter) {
  return exp2Of(Real(rewriter, op.getLoc(), op.getOperand()), rewriter, op.getLoc());
}

Value rewriteRsqrt(math::RsqrtOp op, PatternRewriter &rewriter) {
  return rsqrt(Real(rewriter, op.getLoc(), op.getOperand()), rewriter, op.getLoc());
}

/// 1 - 2 / (1 + e^(2 |x|)).
Value rewriteTanh(math::TanhOp op, PatternRewriter &rewriter) {
  Location loc = op.getLoc();
  if (!endsInHalf(op)) {
    return {};
  }
  Real x(rewriter, loc, op.getOperand());
  Real power = exp2Of(x * (2 * kLog2e), rewriter, loc);
  return reciprocal(power + 1.0, rewriter, loc).fma(x.number(-2), x.number(1));
}

/// 1 - erf(a) = 2^(a P(a)) for a >= 0: a minimax fit of the absolute error of erf, 7e-7. From 4 on
/// erf rounds to 1.
constexpr std::array<double, 5> kErfc = {-1.6278890371322632, -0.9185094237327576,
                                         -0.1486654430627823, 0.029589863494038582,
                                         -0.0029441039077937603};

Value rewriteErf(math::ErfOp op, PatternRewriter &rewriter) {
  Location loc = op.getLoc();
  if (!endsInHalf(op)) {
    return {};
  }
  Real x(rewriter, loc, op.getOperand());
  Real a = x.abs();
  Real result = x.number(1) - exp2Of(a * a.polynomial(kErfc), rewriter, loc);
  return result.withSignOf(x);
}

/// Whether `value` is x times about `factor`.
bool isMultiple(Value value, Value x, double factor) {
  arith::MulFOp product = value.getDefiningOp<arith::MulFOp>();
  FloatAttr constant;
  return product && product.getLhs() == x &&
         matchPattern(product.getRhs(), m_Constant(&constant)) &&
         std::abs(constant.getValueAsDouble() - factor) < 1e-6;
}

/// (1 - erf(a / sqrt 2)) / 2 = 2^(a P(a) - 1) for a >= 0: a minimax fit of the error of GELU in
/// units of the last place of an f16, 0.15 of them for any x.
constexpr std::array<double, 5> kGeluTail = {-1.1499033284372517, -0.4630541931550401,
                                             -0.0488786488878667, 0.005996238324462836,
                                             -0.00033660798355895016};

/// h + h erf(x / sqrt 2) with h = x / 2 is max(x, 0) - |x| (1 - erf(|x| / sqrt 2)) / 2. |x| is
/// bounded so that infinity does not meet the 0 that is left of it; max(x, 0) is (x + |x|) / 2, so
/// that minus infinity gives NaN as it does in the formula. Where x has 16 bits and the
/// result too, only the second factor needs more, and the rest is done for two elements at once;
/// that rounds once more.
struct WholeGelu : OpRewritePattern<math::ErfOp> {
  explicit WholeGelu(MLIRContext *context) : OpRewritePattern(context, kBenefit + 1) {}

  LogicalResult matchAndRewrite(math::ErfOp op, PatternRewriter &rewriter) const override {
    constexpr double kScale = 0.7071067811865476;
    arith::MulFOp argument = op.getOperand().getDefiningOp<arith::MulFOp>();
    auto only = [](Value value) { return value.hasOneUse() ? *value.user_begin() : nullptr; };
    auto product = dyn_cast_or_null<arith::MulFOp>(only(op));
    auto sum = product ? dyn_cast_or_null<arith::AddFOp>(only(product)) : arith::AddFOp();
    if (!argument || !op.getType().isF32() || !sum || !endsInHalf(sum) ||
        !isMultiple(argument, argument.getLhs(), kScale) || product.getLhs() != sum.getLhs() ||
        !isMultiple(sum.getLhs(), argument.getLhs(), 0.5)) {
      return failure();
    }
    Value x = argument.getLhs();
    auto widened = x.getDefiningOp<arith::ExtFOp>();
    auto rounded = dyn_cast_or_null<arith::TruncFOp>(only(sum));
    Operation *last = sum;
    if (widened && rounded && widened.getIn().getType() == rounded.getType()) {
      x = widened.getIn();
      last = rounded;
    }
    rewriter.setInsertionPoint(last);
    rewriter.replaceOp(last, gelu(x, rewriter, op.getLoc()));
    return success();
  }

private:
  static Value gelu(Value operand, PatternRewriter &rewriter, Location loc) {
    constexpr double kBound = 16;
    Real x(rewriter, loc, operand), magnitude = x.abs();
    Value bounded = magnitude.create<arith::MinimumFOp>(Value(magnitude), magnitude.number(kBound));
    Real positive = x.fma(x.number(0.5), magnitude * x.number(0.5));
    bool isWide = operand.getType().isF32();
    Type wide = rewriter.getF32Type();
    Real a(rewriter, loc, isWide ? bounded : x.create<arith::ExtFOp>(wide, bounded));
    Real tail = exp2Of(a.fma(a.polynomial(kGeluTail), a.number(-1)), rewriter, loc);
    Value factor = isWide ? Value(tail) : x.create<arith::TruncFOp>(operand.getType(), Value(tail));
    return (-Real(rewriter, loc, bounded)).fma(Real(rewriter, loc, factor), positive);
  }
};

Value rewriteLog(math::LogOp op, PatternRewriter &rewriter) {
  if (!endsInHalf(op)) {
    return {};
  }
  Real x(rewriter, op.getLoc(), op.getOperand());
  return approximate("lg2.approx.f", x, rewriter, op.getLoc()) * kLn2;
}

/// Near 0 a series whose next term is below 2^-24 of the result, as the logarithm near 1 has no
/// digits.
Value rewriteLog1p(math::Log1pOp op, PatternRewriter &rewriter) {
  if (!endsInHalf(op)) {
    return {};
  }
  constexpr double kSeries = 0x1p-7;
  constexpr std::array<double, 3> kLog1p = {1, -0.5, 1.0 / 3};
  Real x(rewriter, op.getLoc(), op.getOperand());
  Real series = x * x.polynomial(kLog1p);
  Real log = approximate("lg2.approx.f", x + 1.0, rewriter, op.getLoc()) * kLn2;
  return series.where(x.abs() < kSeries, log);
}

/// Of a + sqrt(square), where a >= 0 and `square` is near its square; from 2^30 on twice a, whose
/// square could overflow.
Real logOfSum(const Real &a, const Real &square, OpBuilder &builder, Location loc) {
  Value isLarge = a > 0x1p30;
  Real sum = a.where(isLarge, a + square.sqrt());
  Real powers = approximate("lg2.approx.f", sum, builder, loc);
  return (powers + powers.number(1).where(isLarge, powers.number(0))) * kLn2;
}

/// Where the logarithm of a number near 1 would lose the digits, a series whose next term is below
/// 2^-15 of the result.
constexpr double kAsinhSeries = 0.5, kAtanhSeries = 0.375;
constexpr std::array<double, 5> kAsinh = {1, -1.0 / 6, 3.0 / 40, -15.0 / 336, 105.0 / 3456};
constexpr std::array<double, 5> kAtanh = {1, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9};

Value rewriteAsinh(math::AsinhOp op, PatternRewriter &rewriter) {
  if (!endsInHalf(op)) {
    return {};
  }
  Location loc = op.getLoc();
  Real x(rewriter, loc, op.getOperand()), a = x.abs(), square = x * x;
  Real series = a * square.polynomial(kAsinh);
  Real log = logOfSum(a, square + 1.0, rewriter, loc);
  return series.where(a < kAsinhSeries, log).withSignOf(x);
}

/// An argument of 16 bits that is not 1 is so far from it that the logarithm has digits enough. Far
/// below 1 the sum rounds to nothing, whose logarithm is no NaN.
Value rewriteAcosh(math::AcoshOp op, PatternRewriter &rewriter) {
  if (!endsInHalf(op) || !comesFromHalf(op.getOperand())) {
    return {};
  }
  Location loc = op.getLoc();
  Real x(rewriter, loc, op.getOperand());
  Real log = logOfSum(x, (x - 1.0) * (x + 1.0), rewriter, loc);
  return x.number(std::numeric_limits<double>::quiet_NaN()).where(x < 1.0, log);
}

Value rewriteAtanh(math::AtanhOp op, PatternRewriter &rewriter) {
  if (!endsInHalf(op)) {
    return {};
  }
  Location loc = op.getLoc();
  Real x(rewriter, loc, op.getOperand()), a = x.abs();
  Real series = a * (x * x).polynomial(kAtanh);
  Real log = approximate("lg2.approx.f", a + 1.0, rewriter, loc) -
             approximate("lg2.approx.f", a.number(1) - a, rewriter, loc);
  return series.where(a < kAtanhSeries, log * (kLn2 / 2)).withSignOf(x);
}

/// An operand of the kernel whose reciprocal may be below the least normal float, or above the
/// largest.
bool isAnyBFloat(Value value) {
  arith::ExtFOp widened = value.getDefiningOp<arith::ExtFOp>();
  return widened && widened.getIn().getType().isBF16();
}

Value rewriteDiv(arith::DivFOp op, PatternRewriter &rewriter) {
  Attribute divisor;
  // LLVM turns a division by a power of two into a product.
  if (!endsInHalf(op) || matchPattern(op.getRhs(), m_Constant(&divisor)) ||
      isAnyBFloat(op.getRhs())) {
    return {};
  }
  Real a(rewriter, op.getLoc(), op.getLhs());
  if (math::SqrtOp root = op.getRhs().getDefiningOp<math::SqrtOp>()) {
    return a * rsqrt(Real(rewriter, op.getLoc(), root.getOperand()), rewriter, op.getLoc());
  }
  return a * reciprocal(Real(rewriter, op.getLoc(), op.getRhs()), rewriter, op.getLoc());
}

/// One instruction where upstream's expansion takes a comparison and a selection for each special
/// case.
template <typename Op, typename Instruction> struct Extreme : OpRewritePattern<Op> {
  explicit Extreme(MLIRContext *context) : OpRewritePattern<Op>(context, kBenefit) {}

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!isa<FloatType>(op.getType()) || op.getType().getIntOrFloatBitWidth() > 32) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<Instruction>(op, op.getType(), op.getLhs(), op.getRhs());
    return success();
  }
};

template <typename Op> struct Rewrite : OpRewritePattern<Op> {
  using Function = Value (*)(Op, PatternRewriter &);

  Rewrite(MLIRContext *context, Function function)
      : OpRewritePattern<Op>(context, kBenefit), function(function) {}

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32()) {
      return failure();
    }
    Value result = function(op, rewriter);
    if (!result) {
      return failure();
    }
    rewriter.replaceOp(op, result);
    return success();
  }

  Function function;
};

/// The code of an 8-bit float (common/math/LowBits.h): one instruction, which makes two of them and
/// holds them to the finite range.
struct EncodeFloat8 : OpRewritePattern<arith::BitcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::BitcastOp op, PatternRewriter &rewriter) const override {
    arith::TruncFOp rounded = op.getIn().getDefiningOp<arith::TruncFOp>();
    if (!rounded || !isa<Float8E4M3FNType>(rounded.getType()) || !op.getType().isInteger(8)) {
      return failure();
    }
    Location loc = op.getLoc();
    Value x = rounded.getIn();
    Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(0));
    // The upper half first.
    Value pair = LLVM::CallIntrinsicOp::create(rewriter, loc, rewriter.getI16Type(),
                                               rewriter.getStringAttr("llvm.nvvm.ff.to.e4m3x2.rn"),
                                               ValueRange{zero, x})
                     .getResult(0);
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, rewriter.getI8Type(), pair);
    return success();
  }
};

} // namespace

void populateMathCudaPatterns(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  context->loadDialect<arith::ArithDialect, math::MathDialect, LLVM::LLVMDialect>();
  patterns.add<Rewrite<math::ExpOp>>(context, rewriteExp);
  patterns.add<Rewrite<math::Exp2Op>>(context, rewriteExp2);
  patterns.add<Rewrite<math::RsqrtOp>>(context, rewriteRsqrt);
  patterns.add<Rewrite<math::TanhOp>>(context, rewriteTanh);
  patterns.add<Rewrite<math::ErfOp>>(context, rewriteErf);
  patterns.add<WholeGelu, EncodeFloat8>(context);
  patterns.add<Rewrite<math::LogOp>>(context, rewriteLog);
  patterns.add<Rewrite<math::Log1pOp>>(context, rewriteLog1p);
  patterns.add<Rewrite<math::AsinhOp>>(context, rewriteAsinh);
  patterns.add<Rewrite<math::AcoshOp>>(context, rewriteAcosh);
  patterns.add<Rewrite<math::AtanhOp>>(context, rewriteAtanh);
  patterns.add<Rewrite<arith::DivFOp>>(context, rewriteDiv);
  patterns
      .add<Extreme<arith::MaximumFOp, LLVM::MaximumOp>, Extreme<arith::MinimumFOp, LLVM::MinimumOp>,
           Extreme<arith::MaxNumFOp, LLVM::MaxNumOp>, Extreme<arith::MinNumFOp, LLVM::MinNumOp>>(
          context);
}

} // namespace tenon::codegen::cuda
