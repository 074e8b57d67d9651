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

} // namespace tenon::onnx
