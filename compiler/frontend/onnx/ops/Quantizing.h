// What the operators of linear quantization share. A scale or zero point of one element counts as a
// scalar; all helpers give null for null.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// Input `i`, or zeros of the type with the scale's shape where the node has none.
mlir::Value zeroPoint(NodeContext &c, unsigned i, mlir::Value scale, mlir::Type element);
mlir::Value emitQuantize(NodeContext &c, mlir::Value x, mlir::Value scale, mlir::Value zero,
                         int64_t axis, mlir::Type element);
mlir::Value emitDequantize(NodeContext &c, mlir::Value x, mlir::Value scale, mlir::Value zero,
                           int64_t axis);

/// Inputs that say what quantized numbers stand for; -1 for none. Without `numbers` they are those
/// of a result, which is divided by the scale.
struct QuantizationInputs {
  int numbers = -1, scale = -1, zero = -1;
};
/// An error for a zero point of another type than its numbers, and as checkScales.
void checkQuantization(NodeContext &c, std::initializer_list<QuantizationInputs> inputs);

/// An error for a constant scale, input `i`, that stands for no step between numbers: where numbers
/// are divided by it, one that is not positive and normal, as no quantizer writes it; else one that
/// is not finite.
void checkScales(NodeContext &c, unsigned i, bool divides);

/// A tensor as uint8, with the scale and zero point that its range at run time asks for.
struct RangeQuantized {
  mlir::Value x;
  mlir::Value scale;
  mlir::Value zero;
};
RangeQuantized quantizeByRange(NodeContext &c, mlir::Value x);

/// x - zero as i32; one of several zero points belongs to an index of the axis. Null stands for 0.
mlir::Value centered(NodeContext &c, mlir::Value x, mlir::Value zero, int64_t axis);

/// The product of centered operands of rank 2 and more in f32, times scales: one, or one a row of a
/// and one a column of b.
mlir::Value scaledProduct(NodeContext &c, mlir::Value a, mlir::Value b, mlir::Value scaleA,
                          mlir::Value scaleB);

} // namespace tenon::onnx
