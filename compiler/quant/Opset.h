// Models of older opsets in the words of opset 13, the first whose QuantizeLinear and
// DequantizeLinear have a scale for each channel.
#pragma once

#include "compiler/quant/ModelEdit.h"

namespace tenon::quant {

/// Collects what opset 13 spells otherwise: attributes that became operands, new names. Nothing for
/// a model that is as new. An error that names the operator where 13 cannot say the same.
Status raiseOpset(const onnx::Model &model, const Graph &graph, ModelEdit &edit);

} // namespace tenon::quant
