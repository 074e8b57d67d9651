// Implements reading; float32, which nearly all outputs are, without a look at the type of each.

#include "tools/tenon/accuracy/Rows.h"

#include <algorithm>
#include <cmath>

namespace tenon::tool {

void readElements(const Tensor &tensor, int64_t first, int64_t stride, std::span<double> out) {
  const float *floats = reinterpret_cast<const float *>(tensor.data.data());
  bool isFloat = tensor.dtype == DType::F32;
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t at = first + static_cast<int64_t>(i) * stride;
    out[i] = isFloat ? static_cast<double>(floats[at]) : elementAsDouble(tensor, at);
  }
}

std::vector<double> allElements(const Tensor &tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  readElements(tensor, 0, 1, values);
  return values;
}

bool areFinite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

std::vector<int64_t> rowDims(const Tensor &tensor) {
  return {tensor.dims.begin() + (tensor.dims.empty() ? 0 : 1), tensor.dims.end()};
}

int64_t productOf(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) {
    product *= dim;
  }
  return product;
}

} // namespace tenon::tool
