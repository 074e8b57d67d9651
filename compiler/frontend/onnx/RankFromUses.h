// The rank of an input whose shape the model leaves out, where the nodes that read it leave one
// only.
#pragma once

#include "compiler/frontend/onnx/wire/Model.h"

#include <optional>

namespace tenon::onnx {

std::optional<size_t> rankFromUses(const Graph &graph, std::string_view name);

} // namespace tenon::onnx
