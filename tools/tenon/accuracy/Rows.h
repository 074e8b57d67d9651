// Rows of numbers out of tensors, for scorers: elements at a stride as doubles.

#pragma once

#include "runtime/tensors/Tensor.h"

#include <span>
#include <vector>

namespace tenon::tool {

/// Elements first, first + stride, ... of a numeric tensor.
void readElements(const Tensor &tensor, int64_t first, int64_t stride, std::span<double> out);
/// All of them.
std::vector<double> allElements(const Tensor &tensor);
bool areFinite(std::span<const double> values);
/// Dims of a tensor's rows: all but the first.
std::vector<int64_t> rowDims(const Tensor &tensor);
int64_t productOf(std::span<const int64_t> dims);

} // namespace tenon::tool
