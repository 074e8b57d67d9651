// Blocks of numbers that a search over scales might stumble on; usual ones are test/generate's.
#include "compiler/frontend/weights/Encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace {

using namespace tenon::weights;

constexpr uint32_t kQ41 = 3, kQ80 = 8, kQ4K = 12, kQ6K = 14;

std::vector<float> again(uint32_t id, const std::vector<float> &values) {
  const BlockType &type = *blockType(id);
  EXPECT_TRUE(isWritten(type));
  std::vector<std::byte> blocks(values.size() / static_cast<size_t>(type.elements) *
                                static_cast<size_t>(type.bytes));
  encode(type, values, blocks.data());
  std::vector<float> result(values.size());
  decode(type, blocks.data(), result);
  return result;
}

double largestError(uint32_t id, const std::vector<float> &values) {
  std::vector<float> found = again(id, values);
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(std::isfinite(found[i]));
    largest = std::max(largest, static_cast<double>(std::fabs(found[i] - values[i])));
  }
  return largest;
}

TEST(Encode, EqualNumbersStay) {
  for (uint32_t id : {kQ41, kQ80, kQ4K, kQ6K}) {
    for (float value : {0.0F, 1.0F, -1.0F, 0.25F, -0.03125F}) {
      EXPECT_LE(largestError(id, std::vector<float>(256, value)), std::fabs(value) * 0.01)
          << blockType(id)->name << " of " << value;
    }
  }
}

TEST(Encode, SmallNumbersAreZero) {
  for (uint32_t id : {kQ41, kQ80, kQ4K, kQ6K}) {
    std::vector<float> values(256);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int>(i % 7) - 3) * 1e-41F;
    }
    EXPECT_LE(largestError(id, values), 1e-38) << blockType(id)->name;
  }
}

TEST(Encode, OneLargeNumberStaysOfItsSize) {
  for (uint32_t id : {kQ41, kQ80, kQ4K, kQ6K}) {
    for (float large : {1000.0F, -1000.0F}) {
      std::vector<float> values(256, 0.001F);
      values[77] = large;
      EXPECT_NEAR(again(id, values)[77], large, 20) << blockType(id)->name;
    }
  }
}

TEST(Encode, NumbersOnAGridAreExact) {
  // What the type holds exactly: 16 steps from an offset.
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.5F * static_cast<float>(i % 16) - 3;
  }
  EXPECT_EQ(values, again(kQ41, values));
}

TEST(Encode, HalvesAreTheNearest) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    EXPECT_EQ(bits, halfOf(halfToFloat(static_cast<uint16_t>(bits))));
    EXPECT_EQ(bits | 0x8000, halfOf(-halfToFloat(static_cast<uint16_t>(bits))));
  }
  EXPECT_EQ(0x3c00, halfOf(1 + 0x1p-11F)); // halfway: to even
  EXPECT_EQ(0x3c02, halfOf(1 + 0x1.8p-10F));
  EXPECT_EQ(0x7bff, halfOf(1e9F));
}

} // namespace
