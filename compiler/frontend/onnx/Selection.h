// Parts of tensors whose sizes data decides, for the operators that cut them.
// Relies on the type of the result naming the size from then on.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// The first `count` elements of x along an axis: a scalar of i64 in [0, size along the axis].
/// `most` are never exceeded, where more is known than that size.
mlir::Value takeFirst(NodeContext &c, mlir::Value x, mlir::Value count, int64_t axis,
                      mlir::AffineExpr most);

} // namespace tenon::onnx
