// IEEE half and bfloat16 from the bits of an f32. Relies on the FPU rounding to nearest even, which
// rounds the subnormal halves.
#include "compiler/graph/NarrowFloats.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tenon::tn {
namespace {

constexpr uint32_t kMagnitude = 0x7FFFFFFF;
constexpr uint32_t kInfinity = 0x7F800000;

uint16_t signOf(uint32_t bits) { return static_cast<uint16_t>(bits >> 16 & 0x8000); }

uint16_t toHalf(uint32_t bits) {
  constexpr uint32_t kSmallestNormal = 0x38800000; // 2^-14
  constexpr uint32_t kExponentShift = 112u << 23;  // 127 - 15
  constexpr uint32_t kHalf = 0x3F000000;           // 0.5f, whose last bit is the last of a half
  uint32_t magnitude = bits & kMagnitude;
  uint32_t normal = (magnitude - kExponentShift + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  uint32_t finite = std::min<uint32_t>(normal, 0x7BFF);
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - kHalf;
  uint32_t number = magnitude < kSmallestNormal ? subnormal : finite;
  uint32_t special = magnitude == kInfinity ? 0x7C00 : 0x7E00;
  return static_cast<uint16_t>(signOf(bits) | (magnitude < kInfinity ? number : special));
}

uint16_t toBFloat(uint32_t bits) {
  uint32_t magnitude = bits & kMagnitude;
  uint32_t rounded = (magnitude + 0x7FFF + (magnitude >> 16 & 1)) >> 16;
  uint32_t finite = std::min<uint32_t>(rounded, 0x7F7F);
  uint32_t special = magnitude == kInfinity ? 0x7F80 : 0x7FC0;
  return static_cast<uint16_t>(signOf(bits) | (magnitude < kInfinity ? finite : special));
}

template <uint16_t (*Convert)(uint32_t)>
void convertAll(const void *from, uint16_t *to, size_t count) {
  const char *bytes = static_cast<const char *>(from);
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
    to[i] = Convert(bits);
  }
}

} // namespace

void narrowToHalf(const void *from, uint16_t *to, size_t count) {
  convertAll<toHalf>(from, to, count);
}

void narrowToBFloat(const void *from, uint16_t *to, size_t count) {
  convertAll<toBFloat>(from, to, count);
}

} // namespace tenon::tn
