// What is computed of constants alone, as constants: weights behind Identity, Cast, Reshape and
// arithmetic, sizes of pads. Exporters without a folding step leave such nodes.
#pragma once

#include "compiler/quant/ModelEdit.h"

namespace tenon::quant {

/// Collects new constants in place of the nodes that make them. Whether there are any. Nodes whose
/// numbers are not known, or that would make far more of them than they read, stay; with
/// `keepsNames` also those that move a stored tensor's elements, so that it is found by its name.
bool foldConstants(const onnx::Model &model, const Graph &graph, ModelEdit &edit,
                   onnx::ExternalFiles &files, bool keepsNames);

/// The same in graphs inside of nodes, which may read constants of those around them.
Result<bool> foldInside(const onnx::Model &model, const Graph &graph, ModelEdit &edit,
                        onnx::ExternalFiles &files);

} // namespace tenon::quant
