// Products whose activations find their scales when they run: what is put in place of MatMul and
// Gemm. Relies on ModelEdit.
#pragma once

#include "compiler/quant/ModelEdit.h"

namespace tenon::quant {

/// Names of an operand in 8 bits.
struct DynamicRows {
  std::string quantized, scale;
  std::string zero; ///< empty where it is symmetric
};

/// Nodes before `node` that make s8 of `value`, a scale for each index of all dims but the last:
/// its largest absolute value over 127. Numbers do not depend on what else is in a batch. `opset`
/// is the model's, of ONNX's own operators.
DynamicRows quantizeTokens(ModelEdit &edit, size_t node, const std::string &value, int64_t opset);

/// DynamicQuantizeLinear of `value`: u8, one scale and zero point for all of it.
DynamicRows quantizeTensor(ModelEdit &edit, size_t node, const std::string &value);

/// MatMulInteger with s8 `weight` [depth, columns], times both scales, plus `bias` where there is
/// one: in place of `node`, whose result keeps its name.
struct DynamicProduct {
  DynamicRows rows;
  std::string weight, scale, bias;
};
void replaceProduct(ModelEdit &edit, const Graph &graph, size_t node,
                    const DynamicProduct &product);

} // namespace tenon::quant
