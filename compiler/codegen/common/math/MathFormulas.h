// The formulas of VectorMath: each builds arith operations that compute one function on a scalar or
// a vector of f32 or f64. Errors stated here are the largest found by the sweep in VectorMathTest.
#pragma once

#include "mlir/IR/Builders.h"

namespace tenon::codegen::formula {

using Formula = mlir::Value (*)(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);

/// For f32, made to be fast. NaN and infinities as in IEEE; results below 2^-126 are 0.
namespace f32 {
/// Relative error 1.5e-7.
mlir::Value exp(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
/// Relative error 3e-7.
mlir::Value expm1(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
/// Relative error 1.5e-7.
mlir::Value log(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
/// Relative error 2.5e-7.
mlir::Value log1p(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
/// Relative error 3e-7.
mlir::Value tanh(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
/// Relative and absolute error 4e-7.
mlir::Value erf(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
} // namespace f32

/// For f64, and for f32 by way of f64 where speed does not matter. Relative error 1e-12 unless
/// stated. sin, cos and tan: absolute error 1e-15 (of tan relative to 1 + tan^2) for every finite
/// angle, which rounds to what is usual for every f32.
namespace f64 {
mlir::Value exp(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value exp2(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value expm1(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value log(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value log2(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value log10(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value log1p(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value sin(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value cos(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value tan(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value asin(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value acos(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value atan(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value sinh(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value cosh(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value tanh(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value asinh(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value acosh(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value atanh(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
mlir::Value erf(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
/// Two arguments. As C's pow.
mlir::Value pow(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
/// Two arguments. As C's fmod, exact.
mlir::Value remainder(mlir::OpBuilder &, mlir::Location, mlir::ValueRange);
} // namespace f64

} // namespace tenon::codegen::formula
