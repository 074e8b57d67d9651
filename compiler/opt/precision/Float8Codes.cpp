// By the bits of an f32, since a model has hundreds of millions of weights. Relies on round to
// nearest even for numbers below the normal ones.
#include "compiler/opt/precision/Float8Codes.h"

#include <cmath>
#include <cstring>

namespace tenon::opt {
namespace {

/// The nearest code to a float, to even; beyond the finite range the largest.
uint8_t float8Of(float number) {
  constexpr uint32_t kSmallestNormal = (127 - 6) << 23, kOverflow = 0x43E80000; // 2^-6, 464
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  uint8_t sign = bits >> 24 & 0x80;
  uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= kOverflow) {
    return sign | (magnitude > 0x7F800000 ? 0x7F : 0x7E);
  }
  if (magnitude < kSmallestNormal) {
    return sign | static_cast<uint8_t>(std::nearbyint(std::fabs(number) * 512));
  }
  uint32_t rounded = magnitude + 0x7FFFF + (magnitude >> 20 & 1);
  return sign | static_cast<uint8_t>((rounded >> 20) - ((127 - 7) << 3));
}

} // namespace

std::vector<char> codesOfWeight(llvm::ArrayRef<float> numbers, int64_t outer, int64_t inner,
                                bool keepsOrder, float scale) {
  std::vector<char> codes(numbers.size());
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      uint8_t code = float8Of(numbers[i * inner + j] * scale);
      codes[keepsOrder ? i * inner + j : j * outer + i] = static_cast<char>(code);
    }
  }
  return codes;
}

} // namespace tenon::opt
