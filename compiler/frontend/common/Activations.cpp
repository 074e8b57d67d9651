// The activations that Activations.h declares.
#include "compiler/frontend/common/Activations.h"

#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;

namespace tenon::frontend {

Value scaledElu(Emitter &c, Value given, double alpha, double scale, double inputScale) {
  bool isOne = !given || (scale == 1 && inputScale == 1);
  Value x = isOne ? given : c.widened(given);
  Value inner = inputScale == 1 ? x : c.mul(x, c.scalarLike(inputScale, x));
  Value y = c.unary<tn::EluOp>(inner, llvm::APFloat(alpha));
  if (inputScale != 1) {
    y = c.select(c.compare(x, tn::Predicate::gt, c.scalarLike(0, x)), x, y);
  }
  y = scale == 1 ? y : c.mul(y, c.scalarLike(scale, x));
  return isOne ? y : c.cast(y, getElementTypeOrSelf(given));
}

Value celu(Emitter &c, Value x, double alpha) { return scaledElu(c, x, alpha, 1, 1 / alpha); }

Value hardSigmoid(Emitter &c, Value x, double alpha, double beta) {
  return c.unary<tn::HardSigmoidOp>(x, llvm::APFloat(alpha), llvm::APFloat(beta));
}

Value hardSwish(Emitter &c, Value x) { return c.mul(x, hardSigmoid(c, x, 1.0 / 6, 0.5)); }

Value swish(Emitter &c, Value x, double alpha) {
  return alpha == 1 ? c.unary<tn::SiluOp>(x)
                    : c.mul(x, c.unary<tn::SigmoidOp>(c.mul(x, c.scalarLike(alpha, x))));
}

Value mish(Emitter &c, Value x) {
  return c.mul(x, c.unary<tn::TanhOp>(c.unary<tn::SoftplusOp>(x)));
}

Value softsign(Emitter &c, Value x) {
  return c.div(x, c.add(c.unary<tn::AbsOp>(x), c.scalarLike(1, x)));
}

Value truncated(Emitter &c, Value x) {
  if (!x || !isa<FloatType>(getElementTypeOrSelf(x))) {
    return x;
  }
  return c.select(c.compare(x, tn::Predicate::lt, c.scalarLike(0, x)), c.unary<tn::CeilOp>(x),
                  c.unary<tn::FloorOp>(x));
}

/// From 1/2 on exp(-x^2) p((x - c) / (x + c)), with p = erfc(x) exp(x^2) at Chebyshev points of
/// that quotient: relative error 1e-8 for f32 up to 10, 2e-15 for f64 up to 27, where erfc ends. Of
/// x^2, whose rounding the exponential would multiply, the square of x's first bits is exact.
Value complementOfErf(Emitter &c, Value x) {
  if (!x) {
    return x;
  }
  constexpr double kOfF32[] = {0.210806363,    -0.371736729,   0.251713267,    -0.125033283,
                               0.0399210989,   -0.00399093231, -0.00263227608, 0.000862805334,
                               0.000198522544, -0.000102778547};
  constexpr double kOfF64[] = {
      0.12248480427384142,    -0.23414335767845826,   0.20431980252513088,
      -0.162453026411055,     0.11726736367832835,    -0.076422694894776,
      0.04458505076554848,    -0.022986911747084445,  0.010259965883857532,
      -0.0038231096173492983, 0.0011013818649488589,  -0.00019225229647117074,
      -1.284784910776155e-05, 2.1721486257904365e-05, -6.195618337053576e-06,
      -2.391873389288477e-07, 7.234930993372659e-07,  -1.4974833718441731e-07,
      -5.255341199333375e-08, 2.017842093961418e-08,  3.6099682921948664e-09};
  bool isDouble = getElementTypeOrSelf(x).isF64();
  ArrayRef<double> factors = isDouble ? ArrayRef(kOfF64) : ArrayRef(kOfF32);
  auto number = [&](double value) { return c.scalarLike(value, x); };
  Value a = c.min(x, number(isDouble ? 28 : 12)), center = number(isDouble ? 4.5 : 2.5);
  Value t = c.div(c.sub(a, center), c.add(a, center)), p = number(factors.back());
  for (double factor : llvm::reverse(factors.drop_back())) {
    p = c.add(c.mul(p, t), number(factor));
  }
  double grid = isDouble ? 0x1p20 : 64;
  Value high = c.mul(c.unary<tn::FloorOp>(c.mul(a, number(grid))), number(1 / grid));
  Value rest = c.mul(c.sub(high, a), c.add(high, a));
  Value square = c.unary<tn::NegOp>(c.mul(high, high));
  Value tail = c.mul(c.unary<tn::ExpOp>(square), c.mul(c.unary<tn::ExpOp>(rest), p));
  Value near = c.sub(number(1), c.unary<tn::ErfOp>(x));
  return c.select(c.compare(x, tn::Predicate::gt, number(0.5)), tail, near);
}

Value hypotenuse(Emitter &c, Value a, Value b) {
  a = c.unary<tn::AbsOp>(a), b = c.unary<tn::AbsOp>(b);
  if (!a || !b) {
    return Value();
  }
  Value large = c.max(a, b), small = c.min(a, b), zero = c.scalarLike(0, a);
  Value part = c.div(small, large);
  Value length = c.mul(large, c.unary<tn::SqrtOp>(c.add(c.scalarLike(1, a), c.mul(part, part))));
  length = c.select(c.compare(large, tn::Predicate::eq, zero), large, length);
  // An infinity beside anything, NaN included.
  Value infinity = c.scalarLike(std::numeric_limits<double>::infinity(), a);
  Value isInfinite = c.make<tn::OrOp>(c.compare(a, tn::Predicate::eq, infinity),
                                      c.compare(b, tn::Predicate::eq, infinity));
  return c.select(isInfinite, infinity, length);
}

} // namespace tenon::frontend
