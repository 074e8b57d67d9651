// Systems of linear equations, unrolled over their rows.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// The solutions [n, size, columns] of a x = b for matrices a [n, size, size], by Gauss-Jordan with
/// the largest pivot of each column. Null for null.
mlir::Value solve(NodeContext &c, mlir::Value a, mlir::Value b, int64_t size);

} // namespace tenon::onnx
