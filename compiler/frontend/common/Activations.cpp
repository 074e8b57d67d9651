// The activations that Activations.h declares.
#include "compiler/frontend/common/Activations.h"

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

} // namespace tenon::frontend
