// Activations that `tn` does not name, as chains of elementwise operations.
// Each takes null for null.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// scale * (x > 0 ? x : alpha * (exp(x * inputScale) - 1)): ELU, SELU and CELU.
mlir::Value scaledElu(Emitter &c, mlir::Value x, double alpha, double scale, double inputScale);
/// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
mlir::Value celu(Emitter &c, mlir::Value x, double alpha);
/// clamp(alpha * x + beta, 0, 1)
mlir::Value hardSigmoid(Emitter &c, mlir::Value x, double alpha, double beta);
/// x * clamp(x / 6 + 1 / 2, 0, 1)
mlir::Value hardSwish(Emitter &c, mlir::Value x);
/// x * sigmoid(alpha * x)
mlir::Value swish(Emitter &c, mlir::Value x, double alpha);
/// x * tanh(log(1 + exp(x)))
mlir::Value mish(Emitter &c, mlir::Value x);
/// x / (1 + |x|)
mlir::Value softsign(Emitter &c, mlir::Value x);

/// Rounded towards zero; integers stay.
mlir::Value truncated(Emitter &c, mlir::Value x);

/// 1 - erf(x) of f32 or f64, with its digits where that is nearly 0.
mlir::Value complementOfErf(Emitter &c, mlir::Value x);
/// sqrt(a^2 + b^2) of f32 or f64; neither square overflows or is lost.
mlir::Value hypotenuse(Emitter &c, mlir::Value a, mlir::Value b);

} // namespace tenon::frontend
