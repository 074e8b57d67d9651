// Math on scalars and vectors without libm: every operation that LLVM would turn into a library call
// becomes arith and fma polynomials. Errors are stated per function in VectorMath.cpp.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tenon::codegen::cpu {

/// Patterns (greedy) on exp, exp2, expm1, log, log2, log10, log1p, sin, cos, sincos, tan, asin, acos, atan, atan2,
/// sinh, cosh, tanh, asinh, acosh, atanh, erf, erfc, cbrt, powf, fpowi, ipowi, rsqrt and arith.remf of f16,
/// bf16, f32 and f64, and on the conversions between these types that x86 lacks.
void populateExpandMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace tenon::codegen::cpu
