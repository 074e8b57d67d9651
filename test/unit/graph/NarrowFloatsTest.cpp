// Rounding of weights to 16 bits, against the arithmetic of the reference at a sweep of all bit
// patterns and at the corners.
#include "compiler/graph/NarrowFloats.h"

#include "compiler/reference/Element.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace tenon;

namespace {

uint16_t half(float x) {
  uint16_t bits;
  tn::narrowToHalf(&x, &bits, 1);
  return bits;
}

uint16_t bfloat(float x) {
  uint16_t bits;
  tn::narrowToBFloat(&x, &bits, 1);
  return bits;
}

/// What the reference rounds to, except that a finite number stays finite.
template <typename Small> uint16_t expected(float x) {
  uint16_t bits = Small(static_cast<double>(x)).bits;
  bool overflows = std::isfinite(x) && (bits & 0x7FFF) == Small::kInfinity;
  return overflows ? bits - 1 : bits;
}

TEST(NarrowFloats, RoundsAsTheReference) {
  constexpr uint32_t kStep = 9973;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += kStep) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(x)) {
      EXPECT_GT(half(x) & 0x7FFF, 0x7C00);
      EXPECT_GT(bfloat(x) & 0x7FFF, 0x7F80);
      continue;
    }
    ASSERT_EQ(half(x), expected<reference::Half>(x)) << x;
    ASSERT_EQ(bfloat(x), expected<reference::BFloat>(x)) << x;
  }
}

TEST(NarrowFloats, TiesGoToEvenAndFiniteNumbersStayFinite) {
  EXPECT_EQ(half(1 + 0x1p-11f), 0x3C00); // between 1 and 1 + 2^-10
  EXPECT_EQ(half(1 + 0x3p-11f), 0x3C02); // between 1 + 2^-10 and 1 + 2^-9
  EXPECT_EQ(half(0x1p-25f), 0);          // half of the smallest
  EXPECT_EQ(half(0x1.8p-24f), 2);        // one and a half of the smallest
  EXPECT_EQ(half(-65520), 0xFBFF);       // would round to infinity
  EXPECT_EQ(half(-3.4e38f), 0xFBFF);
  EXPECT_EQ(half(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(bfloat(std::numeric_limits<float>::lowest()), 0xFF7F);
  EXPECT_EQ(bfloat(std::numeric_limits<float>::infinity()), 0x7F80);
}

TEST(NarrowFloats, ReadsUnalignedArrays) {
  float numbers[] = {1, -2, 0.5f};
  char bytes[1 + sizeof(numbers)];
  std::memcpy(bytes + 1, numbers, sizeof(numbers));
  uint16_t halves[3];
  tn::narrowToHalf(bytes + 1, halves, 3);
  EXPECT_EQ(halves[0], 0x3C00);
  EXPECT_EQ(halves[1], 0xC000);
  EXPECT_EQ(halves[2], 0x3800);
}

} // namespace
