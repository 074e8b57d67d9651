// Numbers that look random: a hash of an element's number, the node and its seed. The same in each
// run, on each target and for each thread.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// Uniform f32 in [0, 1). `stream` tells apart what one node draws.
mlir::Value uniformNumbers(NodeContext &c, llvm::ArrayRef<mlir::AffineExpr> dims, uint32_t stream);

} // namespace tenon::onnx
