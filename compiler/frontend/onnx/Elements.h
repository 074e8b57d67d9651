// Single elements of a model's tensors.
#pragma once

#include "compiler/frontend/onnx/wire/TensorData.h"

#include <cstdint>
#include <optional>

namespace tenon::onnx {

/// Element `i` of integers or bools, or of floats; none for other types.
std::optional<int64_t> integerAt(const TensorData &data, uint64_t i);
std::optional<double> realAt(const TensorData &data, uint64_t i);

} // namespace tenon::onnx
