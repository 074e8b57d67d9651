// Numbers of a few bits in bytes, as ONNX Runtime's quantized weights have them.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// Bytes as the numbers of 2, 4 or 8 bits in them, the lowest bits first, in ui8: the last dim has
/// as many more. Null for null.
mlir::Value unpackBits(NodeContext &c, mlir::Value x, int64_t bits);

/// Each element `block` times along the axis, of which the first `size` stay.
mlir::Value repeatBlocks(NodeContext &c, mlir::Value x, int64_t axis, int64_t block,
                         mlir::AffineExpr size);

} // namespace tenon::onnx
