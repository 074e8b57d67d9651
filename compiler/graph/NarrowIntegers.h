// Products and convolutions of small integers, as those of quantized models are: how they are
// marked where floats are multiplied and integers summed.
#pragma once

#include "compiler/graph/Tn.h"

namespace tenon::tn {

/// Unit attribute of a tn.matmul or tn.conv of 32-bit integers: both operands are the tn.cast of
/// f16, which holds integers of at most kMaxNarrow in magnitude.
inline constexpr llvm::StringLiteral kNarrowIntegers = "tn.narrow_integers";
/// The difference of two 8-bit numbers. 64 products of such sum to less than 2^22.
inline constexpr int64_t kMaxNarrow = 255;

inline bool isNarrowProduct(mlir::Operation *op) { return op->hasAttr(kNarrowIntegers); }

/// Of 8-bit numbers with sums of i32: ui8 by i8, as quantized numbers come, and of convolutions i8
/// by i8 too (docs/adr/0021).
inline bool isByteProduct(mlir::Operation *op) {
  auto element = [](mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  };
  return mlir::isa<MatmulOp, ConvOp>(op) && element(op->getOperand(0)).isInteger(8) &&
         element(op->getResult(0)).isInteger(32);
}

inline bool isSignedByte(mlir::Type element) {
  return element.isInteger(8) && !element.isUnsignedInteger();
}

/// The f16 behind an operand of a marked product; the operand of any other.
inline mlir::Value narrowOperand(mlir::Operation *product, mlir::Value operand) {
  CastOp cast = operand.getDefiningOp<CastOp>();
  return cast && isNarrowProduct(product) ? cast.getX() : operand;
}

} // namespace tenon::tn
