// Overflow-checked arithmetic on dimensions, which may come from hostile files. Everything works on
// spans of int64, so any container of dims can be passed.

#pragma once

#include "support/DType.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// Product of dims; 1 for rank 0; none when a dim is negative or the product exceeds int64.
std::optional<int64_t> elementCount(std::span<const int64_t> dims);
/// Bytes of a dense tensor in memory; none when it does not fit in int64.
std::optional<int64_t> byteSize(DType type, std::span<const int64_t> dims);
/// Row-major strides in elements. The dims must have an element count.
std::vector<int64_t> rowMajorStrides(std::span<const int64_t> dims);
/// "1x3x224x224"; "scalar" for rank 0. A negative dim prints as "?".
std::string formatDims(std::span<const int64_t> dims);

constexpr int64_t ceilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

} // namespace tenon
