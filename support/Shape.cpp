// Implements the checked arithmetic of Shape.h with the compiler's overflow builtins.

#include "support/Shape.h"

namespace tenon {

std::optional<int64_t> elementCount(std::span<const int64_t> dims) {
  int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) {
      return std::nullopt;
    }
    empty |= dim == 0;
    overflow |= __builtin_mul_overflow(count, dim == 0 ? 1 : dim, &count);
  }
  if (overflow) {
    return std::nullopt;
  }
  return empty ? 0 : count;
}

std::optional<int64_t> byteSize(DType type, std::span<const int64_t> dims) {
  std::optional<int64_t> count = elementCount(dims);
  int64_t bits = 0;
  if (!count || __builtin_mul_overflow(*count, static_cast<int64_t>(bitWidth(type)), &bits) ||
      bits > INT64_MAX - 7) {
    return std::nullopt;
  }
  return (bits + 7) / 8;
}

std::vector<int64_t> rowMajorStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i > 1; --i) {
    strides[i - 2] = strides[i - 1] * dims[i - 1];
  }
  return strides;
}

std::string formatDims(std::span<const int64_t> dims) {
  if (dims.empty()) {
    return "scalar";
  }
  std::string text;
  for (int64_t dim : dims) {
    text += text.empty() ? "" : "x";
    text += dim < 0 ? "?" : std::to_string(dim);
  }
  return text;
}

} // namespace tenon
