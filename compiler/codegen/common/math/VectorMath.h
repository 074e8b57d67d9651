// Math on scalars and vectors without libm: every operation that LLVM would turn into a library
// call becomes arith and fma polynomials. MathFormulas.h states the error of each.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tenon::codegen {

/// Greedy patterns on exp, exp2, expm1, log, log2, log10, log1p, sin, cos, tan, asin, acos, atan,
/// sinh, cosh, tanh, asinh, acosh, atanh, erf, powf, rsqrt and arith.remf of f16, bf16, f32 and f64
/// and on ipowi. All have benefit 1 or 2, so that a target's own forms may go first.
void populateExpandMathPatterns(mlir::RewritePatternSet &patterns);

/// Greedy patterns on the roundings to f16 and bf16 that x86 lacks; `hasBf16` if it has the one
/// from f32 to bf16 (AVX512-BF16, which takes subnormal numbers for zeros).
void populateExpandRoundingPatterns(mlir::RewritePatternSet &patterns, bool hasBf16 = false);

} // namespace tenon::codegen
