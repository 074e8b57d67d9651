// Layers of graphs inside of nodes (If, Loop, Scan): their weights become small, and rows find
// their scales when they run. Ranges of activations are those of the main graph only.
#pragma once

#include "compiler/quant/ModelEdit.h"
#include "compiler/quant/Quantize.h"
#include "compiler/quant/StoredWeights.h"

namespace tenon::quant {

/// Collects the quantized graphs in `edit`, whose constants they read; `stored` knows these
/// constants by the names of those that they were made from.
Status quantizeBranches(const onnx::Model &model, const Graph &graph, const Settings &settings,
                        int64_t opset, ModelEdit &edit, onnx::ExternalFiles &files,
                        StoredWeights &stored, QuantizationInfo &made);

/// All of these layers, left as they are.
QuantizationInfo leftInside(const Graph &graph);

} // namespace tenon::quant
