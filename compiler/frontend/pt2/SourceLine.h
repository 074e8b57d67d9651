// Where in the user's Python a node comes from, out of PyTorch's stack traces.
#pragma once

#include "compiler/frontend/pt2/wire/Program.h"
#include "mlir/IR/Location.h"

namespace tenon::pt2 {

/// The node's name after the path of its module: "encoder.layer.0/linear_3".
std::string nameOf(const Node &node);
/// "model.py:12" of the innermost call outside of PyTorch itself; empty without a trace.
std::string sourceOf(const Node &node);
/// Name, source line and operator.
mlir::Location locationOf(const Node &node, mlir::MLIRContext *context);

} // namespace tenon::pt2
