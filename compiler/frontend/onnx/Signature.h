// Holds a node to its operator: what the operator takes in the node's opset, and that all of it was
// looked at.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// An error at the node if it has an attribute that the operator lacks in this opset or has with
/// another type, if one is missing, or if there are too many or too few inputs or outputs.
void checkSignature(NodeContext &call, OpRows rows, const OpRow &row);

/// An error if the call of a function gives an attribute that the function does not declare.
void checkArguments(NodeContext &call, const Function &function);

} // namespace tenon::onnx
