// The activations that Activations.h declares.
#include "compiler/frontend/common/Activations.h"

#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;

namespace tenon::frontend {

Value scaledElu(Emitter &c, Value x, double alpha, double scale, double inputScale) {
  Value inner = inputScale == 1 ? x : c.mul(x, c.scalarLike(inputScale, x));
  Value y = c.unary<tn::EluOp>(inner, llvm::APFloat(alpha));
  if (inputScale != 1) {
    y = c.select(c.compare(x, tn::Predicate::gt, c.scalarLike(0, x)), x, y);
  }
  return scale == 1 ? y : c.mul(y, c.scalarLike(scale, x));
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
