// Implements the reading, a type at a time.

#include "tools/tenon/model/WeightRanges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tenon::tool {
namespace {

using Range = std::optional<std::pair<double, double>>;

struct BFloat16 {
  uint16_t bits;
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <typename T> Range rangeAs(llvm::ArrayRef<char> bytes) {
  size_t count = bytes.size() / sizeof(T);
  if (count == 0) {
    return std::nullopt;
  }
  double least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    double value = static_cast<double>(element);
    if (std::isnan(value)) {
      return std::nullopt;
    }
    least = std::min(least, value);
    most = std::max(most, value);
  }
  return std::pair(least, most);
}

} // namespace

Range rangeOf(mlir::Type element, llvm::ArrayRef<char> bytes) {
  if (element.isF32()) {
    return rangeAs<float>(bytes);
  }
  if (element.isF64()) {
    return rangeAs<double>(bytes);
  }
  if (element.isF16()) {
    return rangeAs<_Float16>(bytes);
  }
  if (element.isBF16()) {
    return rangeAs<BFloat16>(bytes);
  }
  bool isUnsigned = element.isUnsignedInteger();
  switch (element.isInteger() ? element.getIntOrFloatBitWidth() : 0) {
  case 8:
    return isUnsigned ? rangeAs<uint8_t>(bytes) : rangeAs<int8_t>(bytes);
  case 16:
    return isUnsigned ? rangeAs<uint16_t>(bytes) : rangeAs<int16_t>(bytes);
  case 32:
    return isUnsigned ? rangeAs<uint32_t>(bytes) : rangeAs<int32_t>(bytes);
  case 64:
    return isUnsigned ? rangeAs<uint64_t>(bytes) : rangeAs<int64_t>(bytes);
  default:
    return std::nullopt;
  }
}

} // namespace tenon::tool
