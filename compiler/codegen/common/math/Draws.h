// What kernels draw tokens with: support/random/GumbelNoise.h operation by operation, on scalars,
// so that a kernel has the bits of generate/sampling. Nothing here may be contracted or relaxed.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace tenon::codegen {

/// f32 to f32.
mlir::Value exponential(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
/// f64 to f64.
mlir::Value logarithm(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);
/// f64 to f64.
mlir::Value gumbel(mlir::OpBuilder &builder, mlir::Location location, mlir::Value uniform);
/// Seed and position are i64, the token is an i32, the number an f64.
mlir::Value uniform(mlir::OpBuilder &builder, mlir::Location location, mlir::Value seed,
                    mlir::Value position, mlir::Value token);
/// The share of an f32 as an i64.
mlir::Value shareOf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value probability);

/// Of a row of `tn.sample`: what its logits are compared by.
struct LogitScale {
  mlir::Value largest; ///< f32
  mlir::Value factor;  ///< f32, one by the temperature

  /// Of the row's temperature (f64, above 0).
  static LogitScale make(mlir::OpBuilder &builder, mlir::Location location, mlir::Value largest,
                         mlir::Value temperature);
  /// The logit with the temperature, at most 0.
  mlir::Value scaled(mlir::OpBuilder &builder, mlir::Location location, mlir::Value logit) const;
};

/// Of a scaled logit, an i32 from 0 that is the larger the smaller the logit is; and the way back.
mlir::Value logitKey(mlir::OpBuilder &builder, mlir::Location location, mlir::Value scaled);
mlir::Value logitOfKey(mlir::OpBuilder &builder, mlir::Location location, mlir::Value key);
/// The last key that min-p (f64) leaves.
mlir::Value lastKey(mlir::OpBuilder &builder, mlir::Location location, mlir::Value minP);
/// Beyond every key.
inline constexpr int64_t kNoKey = 0x7fffffff;
/// A key has so many bits.
inline constexpr int64_t kKeyBits = 31;
/// The share (i64) of a key; 0 of kNoKey.
mlir::Value shareOfKey(mlir::OpBuilder &builder, mlir::Location location, mlir::Value key);
/// What top-p (f64) asks for of a sum of shares (i64).
mlir::Value wantedShares(mlir::OpBuilder &builder, mlir::Location location, mlir::Value topP,
                         mlir::Value shares);

} // namespace tenon::codegen
