// Relies on doubles: the product of two f32 scales is exact, and their quotient is rounded once.
#include "compiler/codegen/edge/FixedPoint.h"

#include <cmath>

namespace tenon::codegen::edge {

namespace {
constexpr int32_t kBits = 31;
constexpr int32_t kMaxShift = 62;
} // namespace

int32_t withShift(double factor, int32_t shift) {
  return static_cast<int32_t>(std::nearbyint(std::ldexp(factor, shift)));
}

std::optional<FixedPoint> fixedPoint(double factor) {
  if (!std::isfinite(factor)) {
    return std::nullopt;
  }
  if (factor == 0) {
    return FixedPoint{};
  }
  int exponent = 0;
  double fraction = std::frexp(std::abs(factor), &exponent);
  // What rounds up to 2^31 is one bit too long.
  if (std::nearbyint(std::ldexp(fraction, kBits)) >= std::ldexp(1.0, kBits)) {
    ++exponent;
  }
  int32_t shift = kBits - exponent;
  if (shift < 1) {
    return std::nullopt;
  }
  shift = shift < kMaxShift ? shift : kMaxShift;
  return FixedPoint{withShift(factor, shift), shift};
}

} // namespace tenon::codegen::edge
