// Models of older opsets in the words of a newer one: of 13, the first whose QuantizeLinear and
// DequantizeLinear have a scale for each channel, or of a later one where a form needs that.
#pragma once

#include "compiler/quant/ModelEdit.h"

namespace tenon::quant {

/// Collects what opset `least` (13 to 21) spells otherwise: attributes that became operands, new
/// names. Nothing for a model that is as new. The opset of the result. An error that names the
/// operator where that opset cannot say the same.
Result<int64_t> raiseOpset(const onnx::Model &model, const Graph &graph, ModelEdit &edit,
                           int64_t least);

/// The part from 13 on, node by node; false where it is not known to mean the same.
bool raiseLaterNode(const Graph &graph, size_t index, int64_t version, int64_t least,
                    ModelEdit &edit);

} // namespace tenon::quant
