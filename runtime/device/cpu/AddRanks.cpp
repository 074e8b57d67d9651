// Element by element, so that the sum of one does not depend on how many there are.

#include "runtime/device/cpu/AddRanks.h"

#include <bit>

namespace tenon::runtime {
namespace {

/// The upper half of an f32.
struct Bf16 {
  uint16_t bits;

  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
  static Bf16 of(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    bool isNan = (bits & 0x7fffffff) > 0x7f800000;
    uint32_t toEven = 0x7fff + (bits >> 16 & 1);
    return {static_cast<uint16_t>((isNan ? bits | 0x400000 : bits + toEven) >> 16)};
  }
};

template <typename Element, typename Sum>
void add(std::span<const void *const> parts, void *to, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    Sum sum = static_cast<const Element *>(parts[0])[i];
    for (const void *part : parts.subspan(1)) {
      sum += static_cast<Sum>(static_cast<const Element *>(part)[i]);
    }
    if constexpr (requires { Element::of(sum); }) {
      static_cast<Element *>(to)[i] = Element::of(sum);
    } else {
      static_cast<Element *>(to)[i] = static_cast<Element>(sum);
    }
  }
}

} // namespace

void addRanks(DType type, std::span<const void *const> parts, void *to, int64_t begin,
              int64_t end) {
  switch (type) {
  case DType::F16:
    return add<_Float16, float>(parts, to, begin, end);
  case DType::BF16:
    return add<Bf16, float>(parts, to, begin, end);
  case DType::F64:
    return add<double, double>(parts, to, begin, end);
  default: // engine/validate lets no other pass
    return add<float, float>(parts, to, begin, end);
  }
}

} // namespace tenon::runtime
