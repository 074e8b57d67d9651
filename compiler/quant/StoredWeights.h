// Weights as they were stored for the first of their readers, so that others read the same bytes.
#pragma once

#include "compiler/quant/Blocks.h"
#include "compiler/quant/Weights.h"

#include <map>
#include <string>

namespace tenon::quant {

/// Names of a weight's parts, and what rounding it lost.
struct StoredWeight {
  std::string quantized, scale, zero;
  QuantizedWeight weight;
  onnx::DataType type = onnx::DataType::Int8;
  BlockWeight blocks; ///< of weights of 4 bits
  std::string wide;   ///< what graphs inside of nodes read of it
};

/// By the name of an initializer of the model, the axis of the scales, and the form: rows of 8
/// bits, turned ones for a product of integers, blocks.
struct WeightKey {
  enum class Form : uint8_t { Rows, Turned, Blocks };
  std::string name;
  int64_t axis = 0;
  Form form = Form::Rows;

  auto operator<=>(const WeightKey &) const = default;
};

using StoredWeights = std::map<WeightKey, StoredWeight>;

} // namespace tenon::quant
