// The element types that are numbers, as types of C++.

#pragma once

#include "support/Check.h"
#include "support/DType.h"

#include <bit>
#include <cstdint>

namespace tenon {

/// Half of a float32: bfloat16.
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(double value) {
    uint32_t wide = std::bit_cast<uint32_t>(static_cast<float>(value));
    bool isNan = value != value;
    bits = static_cast<uint16_t>(isNan ? 0x7fc0 : (wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  explicit operator double() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// Calls visitor(zero of the element type).
template <typename Visitor> void visitType(DType dtype, const Visitor &visitor) {
  switch (dtype) {
  case DType::F32:
    return visitor(float());
  case DType::F64:
    return visitor(double());
  case DType::F16:
    return visitor(_Float16());
  case DType::BF16:
    return visitor(BFloat16());
  case DType::I8:
    return visitor(int8_t());
  case DType::I16:
    return visitor(int16_t());
  case DType::I32:
    return visitor(int32_t());
  case DType::I64:
    return visitor(int64_t());
  case DType::U8:
  case DType::Bool:
    return visitor(uint8_t());
  case DType::U16:
    return visitor(uint16_t());
  case DType::U32:
    return visitor(uint32_t());
  case DType::U64:
    return visitor(uint64_t());
  default:
    TENON_CHECK(false, "only numeric types have elements that are numbers");
  }
}

} // namespace tenon
