// exp, expm1, log, log1p, tanh and erf of f32 in about twenty operations each. Polynomials are
// minimax fits in the weight of the result's relative error; float tricks rely on round to nearest
// and on no fast-math.
#include "compiler/codegen/common/math/MathFormulas.h"
#include "compiler/codegen/common/math/Real.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::formula::f32 {

namespace {

constexpr double kLog2e = 1.44269504088896341;
/// ln 2 = high + low; `high` has few bits, so n * high is exact.
constexpr double kLn2High = 0.693359375;
constexpr double kLn2Low = -2.12194440e-4;
/// 1.5 * 2^23: adding it leaves the rounded integer in the low bits of the float.
constexpr double kRounder = 12582912.0;

/// x = n ln 2 + r with |r| <= ln(2) / 2.
struct Reduced {
  Value powerBits; ///< n in the exponent field: to be added to a float's bits, or to those of 1.
  Real r;
};

Reduced reduce(const Real &x) {
  Real shifted = x.fma(x.number(kLog2e), x.number(kRounder));
  Real n = shifted - kRounder;
  Real r = n.fma(x.number(-kLn2High), x);
  r = n.fma(x.number(-kLn2Low), r);
  return {x.create<arith::ShLIOp>(shifted.bits(), x.integer(23)), r};
}

/// e^r - 1 for |r| <= ln(2) / 2, relative error 3e-9 before rounding.
Real expm1Reduced(const Real &r) {
  Real p = r.polynomial(
      {0.499999934476, 0.166665206321, 0.0416683880955, 0.00836871685266, 0.00138145956018});
  return (r * r).fma(p, r);
}

/// The power of e that was computed for x, or one less. Above its range, and for NaN, x + inf is
/// the answer; below, where the exponent field has wrapped around, the limit is.
Real inRange(const Real &x, const Real &result, double limit) {
  Value isBelowTop =
      x.create<arith::CmpFOp>(arith::CmpFPredicate::OLE, Value(x), Value(x.number(88.7228317)));
  Real bounded = result.where(isBelowTop, x + std::numeric_limits<double>::infinity());
  return x.number(limit).where(x < -87.3365402, bounded);
}

} // namespace

Value exp(OpBuilder &builder, Location loc, ValueRange args) {
  Real x(builder, loc, args[0]);
  Reduced reduced = reduce(x);
  Real p = expm1Reduced(reduced.r) + 1.0;
  Real result = x.fromBits(x.create<arith::AddIOp>(p.bits(), reduced.powerBits));
  return inRange(x, result, 0);
}

Value expm1(OpBuilder &builder, Location loc, ValueRange args) {
  Real x(builder, loc, args[0]);
  Reduced reduced = reduce(x);
  Real q = expm1Reduced(reduced.r);
  Real power = x.fromBits(x.create<arith::AddIOp>(x.number(1).bits(), reduced.powerBits));
  constexpr double kPowerFrom = 18; // where 1 is less than a rounding of the power
  Real large = x.fromBits(x.create<arith::AddIOp>((q + 1.0).bits(), reduced.powerBits));
  Real result = power.fma(q, power - 1.0).where(x < kPowerFrom, large);
  return inRange(x, result, -1);
}

Value log(OpBuilder &builder, Location loc, ValueRange args) {
  Real input(builder, loc, args[0]);
  Value isSubnormal = input < 0x1p-126;
  Real x = (input * 0x1p23).where(isSubnormal, input);
  // x = 2^e * m with m in [sqrt(1/2), sqrt 2).
  Value fromRoot = x.create<arith::SubIOp>(x.bits(), x.integer(0x3f3504f3));
  Value e = x.create<arith::ShRSIOp>(fromRoot, x.integer(23));
  Value eBits = x.create<arith::ShLIOp>(e, x.integer(23));
  Real f = x.fromBits(x.create<arith::SubIOp>(x.bits(), eBits)) - 1.0;
  Real n = x.fromInteger(e) - x.number(23).where(isSubnormal, x.number(0));
  Real p = f.polynomial({0.333333317061, -0.25000821158, 0.200012270755, -0.1662335375,
                         0.14201751855, -0.13160207828, 0.127616264036, -0.0763449390068});
  Real square = f * f;
  Real tail = (square * f).fma(p, n * kLn2Low);
  tail = square.fma(x.number(-0.5), tail);
  Real result = n.fma(x.number(kLn2High), f + tail);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  result = input.where(input == kInfinity, result);
  result = input.number(-kInfinity).where(input == 0.0, result);
  // NaN and negative numbers.
  Value valid =
      x.create<arith::CmpFOp>(arith::CmpFPredicate::OGE, Value(input), Value(input.number(0)));
  return result.where(valid, input.number(std::numeric_limits<double>::quiet_NaN()));
}

// log(s) with s = 1 + x rounded, and what the rounding took away. That would have to be divided by
// s: up to 1 it is nearly s / s, beyond it is less than a rounding of the logarithm.
Value log1p(OpBuilder &builder, Location loc, ValueRange args) {
  Real x(builder, loc, args[0]);
  Real sum = x + 1.0;
  Real lost = (x - (sum - 1.0)).where(x < 1.0, x.number(0));
  return Real(builder, loc, log(builder, loc, Value(sum))) + lost;
}

// With e = exp(2 |x|) - 1: tanh |x| = e / (e + 2), without cancellation for small x.
Value tanh(OpBuilder &builder, Location loc, ValueRange args) {
  Real x(builder, loc, args[0]);
  Real twice = x.abs() * 2.0;
  constexpr double kOneFrom = 18.1; // tanh rounds to 1; NaN passes.
  twice = x.number(kOneFrom).where(twice > kOneFrom, twice);
  Reduced reduced = reduce(twice);
  Real q = expm1Reduced(reduced.r);
  Real power = x.fromBits(x.create<arith::AddIOp>(x.number(1).bits(), reduced.powerBits));
  Real e = power.fma(q, power - 1.0);
  return (e / (e + 2.0)).withSignOf(x);
}

// x P(x^2) / Q(x^2), fitted on [0, 3.8325]; from there on erf rounds to 1.
Value erf(OpBuilder &builder, Location loc, ValueRange args) {
  Real x(builder, loc, args[0]);
  constexpr double kOneFrom = 3.832506856900711;
  Real a = x.abs();
  a = x.number(kOneFrom).where(a > kOneFrom, a);
  Real square = a * a;
  Real p = square.polynomial({1.1283791065216064, 0.18930567800998688, 0.05267491564154625,
                              0.0037376226391643286, 0.0002877083607017994, 2.104981149386731e-06});
  Real q = square.polynomial({1.0, 0.5010998845100403, 0.11371981352567673, 0.014910641126334667,
                              0.0011621363228186965, 3.8804675568826497e-05});
  Real result = a * p / q;
  result = x.number(1).where(result > 1.0, result);
  return result.withSignOf(x);
}

} // namespace tenon::codegen::formula::f32
