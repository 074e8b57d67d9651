// Integers that a model says in several nodes: exporters compute bounds and dims from constants
// instead of writing them down.
#pragma once

#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/quant/Graph.h"

#include <optional>
#include <vector>

namespace tenon::prune {

/// The elements of a constant of int32 or int64, or of what follows from such by arithmetic,
/// joining and reshaping; none for others.
std::optional<std::vector<int64_t>> integersOf(const quant::Graph &graph, std::string_view value,
                                               onnx::ExternalFiles &files);

} // namespace tenon::prune
