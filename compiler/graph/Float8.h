// Products of 8-bit floats (f8E4M3FN): how they are marked, and what their operands are. As for the
// graph's numbers they are products of the floats that the codes stand for, each times a number.
#pragma once

#include "compiler/graph/TnRare.h"

#include <optional>

namespace tenon::tn {

/// Unit attribute of a tn.matmul of which both operands are codes of 8 bits times a number, as
/// `float8Operand` reads them, B is [columns, depth] (transposeB), and whose columns and depth are
/// multiples of kFloat8Border.
inline constexpr llvm::StringLiteral kFloat8 = "tn.float8";
/// What tensor cores and libraries ask of columns and depth.
inline constexpr int64_t kFloat8Border = 16;
inline constexpr double kLargestFloat8 = 448;

inline bool isFloat8Product(mlir::Operation *op) { return op->hasAttr(kFloat8); }

/// decode(codes) * factor.
struct Float8Operand {
  mlir::Value codes;
  double factor = 1;
};

/// The one number that a constant of rank 0 holds.
inline std::optional<double> splatNumber(mlir::Value value) {
  ConstantOp constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? mlir::dyn_cast<mlir::DenseFPElementsAttr>(constant.getValue())
                           : mlir::DenseFPElementsAttr();
  if (!elements || !elements.isSplat() || elements.getType().getRank() != 0) {
    return std::nullopt;
  }
  return elements.getSplatValue<llvm::APFloat>().convertToDouble();
}

/// What an operand of a product is made of: tn.decode of f8E4M3FN, or that times a constant.
inline std::optional<Float8Operand> float8Operand(mlir::Value operand) {
  Float8Operand result;
  if (MulOp product = operand.getDefiningOp<MulOp>()) {
    std::optional<double> factor = splatNumber(product.getB());
    if (!factor) {
      return std::nullopt;
    }
    result.factor = *factor;
    operand = product.getA();
  }
  DecodeOp decode = operand.getDefiningOp<DecodeOp>();
  if (!decode ||
      !mlir::isa<mlir::Float8E4M3FNType>(
          mlir::cast<mlir::RankedTensorType>(decode.getX().getType()).getElementType())) {
    return std::nullopt;
  }
  result.codes = decode.getX();
  return result;
}

} // namespace tenon::tn
