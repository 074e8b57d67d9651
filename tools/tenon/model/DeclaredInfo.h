// What an ONNX file says of itself, for models that cannot be imported.

#pragma once

#include "compiler/frontend/onnx/wire/Model.h"
#include "tools/tenon/model/CompilerBridge.h"

namespace tenon::tool {

std::vector<ModelOpset> opsetsOf(const onnx::Model &model);
/// Inputs, outputs, nodes and weights as they are declared; nodes inside of nodes are not listed.
ModelInfo declaredInfo(const onnx::Model &model);

} // namespace tenon::tool
