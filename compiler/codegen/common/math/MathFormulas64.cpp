// The elementary functions of f64 from exp, log, sin, cos and atan, by series on reduced arguments.
// Small arguments take their own series wherever the defining formula would cancel.
#include "compiler/codegen/common/math/LargeAngle.h"
#include "compiler/codegen/common/math/MathFormulas.h"
#include "compiler/codegen/common/math/Real.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::formula::f64 {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2 = 0.693147180559945309;
/// High parts with few bits, so that their products with an exponent or quadrant number are exact.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kHalfPi = 1.57079632679489661923;
constexpr double kHalfPiTail = 6.123233995736766e-17;
/// 1.5 * 2^52: adding it leaves the rounded integer in the low bits of the double.
constexpr double kRounder = 6755399441055744.0;

Real realExp(const Real &x) {
  Real shifted = x.fma(x.number(1 / kLn2), x.number(kRounder));
  Real n = shifted - kRounder;
  Real r = n.fma(x.number(-kLn2High), x);
  r = n.fma(x.number(-kLn2Low), r);
  Real p =
      r.polynomial({1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
                    1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600});
  Value power = x.create<arith::ShLIOp>(shifted.bits(), x.integer(52));
  Real result = x.fromBits(x.create<arith::AddIOp>(p.bits(), power));
  Value inRange = x.create<arith::CmpFOp>(arith::CmpFPredicate::OLE, Value(x),
                                          Value(x.number(709.782712893384)));
  result = result.where(inRange, x + kInfinity);
  return x.number(0).where(x < -708.396418532264, result);
}

/// 2 artanh(s) for |s| <= 0.172: log((1 + s) / (1 - s)).
Real logSeries(const Real &s) {
  return s * (s * s).polynomial({2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13,
                                 2.0 / 15, 2.0 / 17, 2.0 / 19});
}

Real realLog(const Real &input) {
  Value isSubnormal = input < 0x1p-1022;
  Real x = (input * 0x1p54).where(isSubnormal, input);
  Value fromRoot = x.create<arith::SubIOp>(x.bits(), x.integer(0x3fe6a09e667f3bcd));
  Value e = x.create<arith::ShRSIOp>(fromRoot, x.integer(52));
  Value eBits = x.create<arith::ShLIOp>(e, x.integer(52));
  Real m = x.fromBits(x.create<arith::SubIOp>(x.bits(), eBits));
  Real n = x.fromInteger(e) - x.number(54).where(isSubnormal, x.number(0));
  Real result = logSeries((m - 1.0) / (m + 1.0));
  result = n.fma(x.number(kLn2High), n.fma(x.number(kLn2Low), result));
  result = input.where(input == kInfinity, result);
  result = input.number(-kInfinity).where(input == 0.0, result);
  Value valid =
      x.create<arith::CmpFOp>(arith::CmpFPredicate::OGE, Value(input), Value(input.number(0)));
  return result.where(valid, input.number(kNan));
}

Real realLog1p(const Real &x) {
  return logSeries(x / (x + 2.0)).where(x.abs() < 0.3, realLog(x + 1.0));
}

struct SinCos {
  Real sin;
  Real cos;
};

SinCos realSinCos(const Real &input) {
  // x - x is 0 for finite numbers, else NaN.
  Value isSmall = input.abs() < kLargeAngle;
  Real x = input.where(isSmall, input - input);
  Real shifted = x.fma(x.number(1 / kHalfPi), x.number(kRounder));
  Real n = shifted - kRounder;
  Real small = n.fma(x.number(-kHalfPi), x);
  small = n.fma(x.number(-kHalfPiTail), small);
  auto [quadrant, r] = reduceLargeAngle(input, isSmall, {shifted.bits(), small});
  Real square = r * r;
  Real sine = r * square.polynomial({1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880,
                                     -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000});
  Real cosine = square.polynomial({1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
                                   1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000});
  // Quadrants 1 and 3 swap the two; 2 and 3 negate the sine, 1 and 2 the cosine.
  auto bitOf = [&](Value integer, int64_t mask) {
    Value masked = x.create<arith::AndIOp>(integer, x.integer(mask));
    return x.create<arith::CmpIOp>(arith::CmpIPredicate::ne, masked, x.integer(0));
  };
  Value next = x.create<arith::AddIOp>(quadrant, x.integer(1));
  Value swaps = bitOf(quadrant, 1);
  Real sinValue = cosine.where(swaps, sine);
  Real cosValue = sine.where(swaps, cosine);
  return {(-sinValue).where(bitOf(quadrant, 2), sinValue),
          (-cosValue).where(bitOf(next, 2), cosValue)};
}

/// artan of |x| by two reductions to |u| <= tan(pi / 8).
Real realAtan(const Real &x) {
  Real a = x.abs();
  Value isLarge = a > 1.0;
  Real t = (x.number(1) / a).where(isLarge, a);
  Value isMiddle = t > 0.41421356237309503;
  Real u = ((t - 1.0) / (t + 1.0)).where(isMiddle, t);
  Real s = u * u;
  Real angle = u * s.polynomial({1.0, -1.0 / 3, 1.0 / 5, -1.0 / 7, 1.0 / 9, -1.0 / 11, 1.0 / 13,
                                 -1.0 / 15, 1.0 / 17, -1.0 / 19, 1.0 / 21, -1.0 / 23, 1.0 / 25,
                                 -1.0 / 27, 1.0 / 29, -1.0 / 31});
  angle = (angle + kHalfPi / 2).where(isMiddle, angle);
  angle = (x.number(kHalfPi) - angle).where(isLarge, angle);
  return angle.withSignOf(x);
}

/// e^x / 2, which is finite a little longer than e^x.
Real halfExp(const Real &x) {
  Real root = realExp(x * 0.5);
  return root * 0.5 * root;
}

Real first(OpBuilder &builder, Location loc, ValueRange args) {
  return Real(builder, loc, args[0]);
}

} // namespace

Value exp(OpBuilder &builder, Location loc, ValueRange args) {
  return realExp(first(builder, loc, args));
}

Value exp2(OpBuilder &builder, Location loc, ValueRange args) {
  return realExp(first(builder, loc, args) * kLn2);
}

Value expm1(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real series =
      x * x.polynomial({1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040});
  return series.where(x.abs() < 1e-2, realExp(x) - 1.0);
}

Value log(OpBuilder &builder, Location loc, ValueRange args) {
  return realLog(first(builder, loc, args));
}

Value log2(OpBuilder &builder, Location loc, ValueRange args) {
  return realLog(first(builder, loc, args)) * (1 / kLn2);
}

Value log10(OpBuilder &builder, Location loc, ValueRange args) {
  return realLog(first(builder, loc, args)) * 0.434294481903251828;
}

Value log1p(OpBuilder &builder, Location loc, ValueRange args) {
  return realLog1p(first(builder, loc, args));
}

Value sin(OpBuilder &builder, Location loc, ValueRange args) {
  return realSinCos(first(builder, loc, args)).sin;
}

Value cos(OpBuilder &builder, Location loc, ValueRange args) {
  return realSinCos(first(builder, loc, args)).cos;
}

Value tan(OpBuilder &builder, Location loc, ValueRange args) {
  SinCos both = realSinCos(first(builder, loc, args));
  return both.sin / both.cos;
}

Value asin(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real one = x.number(1);
  return realAtan(x / ((one - x) * (one + x)).sqrt());
}

Value acos(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real one = x.number(1);
  return realAtan(((one - x) / (one + x)).sqrt()) * 2.0;
}

Value atan(OpBuilder &builder, Location loc, ValueRange args) {
  return realAtan(first(builder, loc, args));
}

Value sinh(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real series = x * (x * x).polynomial({1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880});
  Real e = realExp(x.abs());
  Real large = (e * 0.5 - x.number(0.5) / e);
  large = halfExp(x.abs()).where(x.abs() > 700.0, large).withSignOf(x);
  return series.where(x.abs() < 0.1, large);
}

Value cosh(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real e = realExp(x.abs());
  return halfExp(x.abs()).where(x.abs() > 700.0, e * 0.5 + x.number(0.5) / e);
}

Value tanh(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real series = x * (x * x).polynomial({1.0, -1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835});
  Real e = realExp(x.abs() * -2.0);
  Real one = x.number(1);
  return series.where(x.abs() < 1e-2, ((one - e) / (one + e)).withSignOf(x));
}

Value asinh(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real a = x.abs();
  Real square = a * a;
  Real small = realLog1p(a + square / ((square + 1.0).sqrt() + 1.0));
  Real large = realLog(a) + kLn2;
  return large.where(a > 1e9, small).withSignOf(x);
}

Value acosh(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real t = x - 1.0;
  Real small = realLog1p(t + t.fma(t, t * 2.0).sqrt());
  Real large = realLog(x) + kLn2;
  Value isDefined =
      x.create<arith::CmpFOp>(arith::CmpFPredicate::OGE, Value(t), Value(t.number(0)));
  return large.where(x > 1e9, small).where(isDefined, x.number(kNan));
}

Value atanh(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  Real a = x.abs();
  return (realLog1p(a * 2.0 / (x.number(1) - a)) * 0.5).withSignOf(x);
}

// Up to 1/2 by its series. Beyond, 1 - exp(-x^2) p((x - 5/2) / (x + 5/2)): p is erfc(x) exp(x^2) at
// 23 Chebyshev points of that quotient, computed with 70 digits; from 6 on erf rounds to 1.
Value erf(OpBuilder &builder, Location loc, ValueRange args) {
  Real x = first(builder, loc, args);
  constexpr double kOneFrom = 6, kTwoOverRootPi = 1.1283791670955126;
  Real a = x.abs();
  a = x.number(kOneFrom).where(a > kOneFrom, a);
  SmallVector<double> series;
  double power = kTwoOverRootPi; // times (-1)^n / n!
  for (int n = 0; n < 12; ++n) {
    series.push_back(power / (2 * n + 1));
    power /= -(n + 1);
  }
  Real small = a * (a * a).polynomial(series);
  Real p =
      ((a - 2.5) / (a + 2.5))
          .polynomial({0.2108063640611436,      -0.37173673394897844,    0.2517131932174477,
                       -0.1250330523783824,     0.03992253907573195,     -0.003993701177537096,
                       -0.0026423659684660854,  0.0008759155916185639,   0.00022838043916849696,
                       -0.00012887813030355738, -3.418280570915213e-05,  1.8618455876064488e-05,
                       7.556457938920249e-06,   -2.3086129719026245e-06, -1.8202912444894764e-06,
                       9.288437714780205e-08,   3.963997569768834e-07,   6.824238746837891e-08,
                       -6.759463623566989e-08,  -2.4114697372681987e-08, 7.3044746870292e-09,
                       3.1886116656094994e-09,  -2.9560628986999956e-10});
  Real large = x.number(1) - p * realExp(-(a * a));
  return large.where(a > 0.5, small).withSignOf(x);
}

// The sign of a negative base (or zero) is kept by odd exponents; of a finite one other exponents
// that are no integers have no power.
Value pow(OpBuilder &builder, Location loc, ValueRange args) {
  Real base = first(builder, loc, args);
  Real exponent(builder, loc, args[1]);
  Real a = base.abs();
  Real magnitude = realExp(exponent * realLog(a));
  Real half = exponent * 0.5;
  Value isInteger = exponent == exponent.floor();
  Value isEven = half == half.floor();
  Real odd = magnitude.withSignOf(base);
  Real whole = magnitude.where(isEven, odd);
  Value hasRoot = base.create<arith::OrIOp>(a == kInfinity, a == 0.0);
  Real broken = magnitude.where(hasRoot, base.number(kNan));
  Real result = whole.where(isInteger, broken).where(base < 0.0, magnitude);
  result = whole.where(base.create<arith::AndIOp>(base == 0.0, isInteger), result);
  Value isUnit = base.create<arith::AndIOp>(a == 1.0, exponent.abs() == kInfinity);
  Value isOne = base.create<arith::OrIOp>(isUnit, base == 1.0);
  result = base.number(1).where(isOne, result);
  return base.number(1).where(exponent == 0.0, result);
}

namespace {

/// The exponent of a positive number, as a floor of its logarithm to base 2 plus a constant.
Value exponentBits(const Real &x) { return x.create<arith::ShRUIOp>(x.bits(), x.integer(52)); }

/// 2^n for -1022 <= n <= 1023.
Real powerOfTwo(const Real &like, Value n) {
  Value biased = like.create<arith::AddIOp>(n, like.integer(1023));
  return like.fromBits(like.create<arith::ShLIOp>(biased, like.integer(52)));
}

/// The largest multiple y 2^n (n >= 0) that r holds fewer than 2^52 times.
Real multipleBelow(const Real &r, const Real &y) {
  constexpr int64_t kQuotientBits = 51, kSubnormalBits = 54;
  Value isSubnormal = y < 0x1p-1022;
  Real normal = (y * 0x1p54).where(isSubnormal, y);
  Value zero = y.integer(0);
  Value shift = y.create<arith::SelectOp>(isSubnormal, y.integer(kSubnormalBits), zero);
  Value difference = y.create<arith::AddIOp>(
      y.create<arith::SubIOp>(exponentBits(r), exponentBits(normal)), shift);
  Value n =
      y.create<arith::MaxSIOp>(y.create<arith::SubIOp>(difference, y.integer(kQuotientBits)), zero);
  // In two steps, as 2^n itself may be no number.
  Value power = y.create<arith::SubIOp>(n, shift);
  Value part = y.create<arith::ShRSIOp>(power, y.integer(1));
  Value rest = y.create<arith::SubIOp>(power, part);
  return normal * powerOfTwo(y, part) * powerOfTwo(y, rest);
}

} // namespace

// Long division: each step takes a multiple of the divisor away as often as it goes, at most 2^52
// times; quotient and rest are exact, the rest but for one multiple too many.
Value remainder(OpBuilder &builder, Location loc, ValueRange args) {
  Real a = first(builder, loc, args);
  Real divisor(builder, loc, args[1]);
  Value isDefined = a.create<arith::AndIOp>(a.abs() < kInfinity, divisor.abs() > 0.0);
  Real start = a.abs().where(isDefined, a.number(0));
  Real y = divisor.abs().where(isDefined, a.number(1));
  auto isLeft = [&](const Real &r) -> Value {
    return r.create<arith::CmpFOp>(arith::CmpFPredicate::OGE, Value(r), Value(y));
  };
  scf::WhileOp loop = scf::WhileOp::create(
      builder, loc, TypeRange(Value(a).getType()), ValueRange(Value(start)),
      [&](OpBuilder &before, Location, ValueRange state) {
        Real r(before, loc, state[0]);
        scf::ConditionOp::create(before, loc, anyOf(before, loc, isLeft(r)), state);
      },
      [&](OpBuilder &after, Location, ValueRange state) {
        Real r(after, loc, state[0]);
        Real multiple = multipleBelow(r, Real(after, loc, y));
        Real next = (-(r / multiple).trunc()).fma(multiple, r);
        next = (next + multiple).where(next < 0.0, next);
        scf::YieldOp::create(after, loc, Value(next.where(isLeft(r), r)));
      });
  Real result = Real(builder, loc, loop.getResult(0)).withSignOf(a);
  return result.where(isDefined, a.number(kNan));
}

} // namespace tenon::codegen::formula::f64
