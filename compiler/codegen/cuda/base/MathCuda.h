// Math on f32 scalars by the approximate instructions of NVIDIA GPUs, where they are exact enough.
// What has no such form keeps the one of VectorMath.h, whose patterns have less benefit.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tenon::codegen::cuda {

/// Greedy patterns on scalars, with the errors that the test sweeps (ex2.approx errs by up to
/// 2^-22): exp and exp2 of f32 to 3.4e-7 relative, rsqrt to 2e-7; results below 2^-126 are 0. exp
/// of a number that comes from an f16 or bf16 takes a shorter way: an error of 3.1e-7 + 7.5e-8 |x|,
/// far below that of the argument. Where all uses end in a rounding to f16 or bf16, also: tanh and
/// erf to 1e-6 absolute, log to 5e-7 absolute or 3e-7 relative, a quotient to 3e-7 relative (its
/// divisor between 2^-126 and 2^126). Maxima and minima are one instruction. All other quotients
/// and roots stay those of IEEE.
void populateMathCudaPatterns(mlir::RewritePatternSet &patterns);
/// Bytes as f32 and quantized numbers as bytes, exactly (Bytes.cpp).
void populateBytePatterns(mlir::RewritePatternSet &patterns);

} // namespace tenon::codegen::cuda
