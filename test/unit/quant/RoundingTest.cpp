// Codes of E4M3, the factor of an inverse Gram matrix, and blocks of 4 bits in both layouts.
#include "compiler/quant/Blocks.h"
#include "compiler/quant/Float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tenon::quant {
namespace {

constexpr int kNan = 0x7f;

TEST(Float8, EveryCodeIsItsOwn) {
  for (int code = 0; code < 256; ++code) {
    if ((code & kNan) != kNan) {
      EXPECT_EQ(toFloat8(fromFloat8(static_cast<uint8_t>(code))), code) << code;
    }
  }
}

TEST(Float8, Values) {
  EXPECT_EQ(fromFloat8(0x7e), 448);
  EXPECT_EQ(fromFloat8(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(fromFloat8(0x38), 1);
  EXPECT_EQ(fromFloat8(0xb8), -1);
}

TEST(Float8, RoundsToNearestEvenAndSaturates) {
  EXPECT_EQ(fromFloat8(toFloat8(1.0625F)), 1);     // half way, to the even mantissa
  EXPECT_EQ(fromFloat8(toFloat8(1.1875F)), 1.25F); // likewise
  EXPECT_EQ(fromFloat8(toFloat8(1.99F)), 2);       // into the next octave
  EXPECT_EQ(fromFloat8(toFloat8(1e6F)), 448);
  EXPECT_EQ(fromFloat8(toFloat8(-500.0F)), -448);
  EXPECT_EQ(fromFloat8(toFloat8(1e-9F)), 0);
}

Gram gramOf(size_t depth, size_t rows) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(depth * rows);
  for (size_t row = 0; row < rows; ++row) {
    float shared = normal(random);
    for (size_t i = 0; i < depth; ++i) {
      x[row * depth + i] = shared + normal(random) * 0.3F;
    }
  }
  Gram gram(depth);
  gram.add(x);
  return gram;
}

TEST(Gram, FactorIsThatOfTheInverse) {
  constexpr size_t kDepth = 24;
  Gram gram = gramOf(kDepth, 100);
  EXPECT_EQ(gram.rows(), 100U);
  std::vector<float> u = inverseFactor(gram);
  double mean = 0;
  for (size_t i = 0; i < kDepth; ++i) {
    mean += gram.at(i, i) / kDepth;
  }
  auto inverse = [&](size_t i, size_t j) {
    double sum = 0;
    for (size_t k = 0; k < kDepth; ++k) {
      sum += double(u[k * kDepth + i]) * u[k * kDepth + j];
    }
    return sum;
  };
  for (size_t i = 0; i < kDepth; ++i) {
    for (size_t j = 0; j < kDepth; ++j) {
      double product = 0;
      for (size_t k = 0; k < kDepth; ++k) {
        product += (gram.at(i, k) + (i == k ? 0.01 * mean : 0)) * inverse(k, j);
      }
      EXPECT_NEAR(product, i == j, 1e-3) << i << ", " << j;
      EXPECT_TRUE(i <= j || u[i * kDepth + j] == 0);
    }
  }
}

Floats weights(int64_t rows, int64_t columns) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  Floats weight{{rows, columns}, std::vector<float>(static_cast<size_t>(rows * columns))};
  for (float &value : weight.values) {
    value = normal(random);
  }
  return weight;
}

TEST(Blocks, RoundingBySamplesHelpsTheProduct) {
  Floats weight = weights(70, 12);
  Gram gram = gramOf(70, 300);
  BlockWeight nearest = quantizeBlocks(weight, 1), sampled = quantizeBlocks(weight, 1, &gram);
  EXPECT_GT(sampled.gain, 2);
  EXPECT_EQ(nearest.gain, 0);
  // What it gains costs the weights themselves.
  EXPECT_GT(sampled.error, nearest.error);
}

TEST(Blocks, BothDirectionsAndLayoutsHoldTheSame) {
  Floats weight = weights(70, 12);
  BlockWeight down = quantizeBlocks(weight, 1), across = quantizeBlocks(transposed(weight), 0);
  EXPECT_EQ(down.levels, across.levels);
  EXPECT_EQ(down.scales, across.scales);
  std::vector<uint8_t> product = packForProduct(down);
  PackedBlocks own = packForDequantize(down, 1), turned = packForDequantize(across, 0);
  EXPECT_EQ(own.scaleDims, (std::vector<int64_t>{3, 12}));
  EXPECT_EQ(turned.scaleDims, (std::vector<int64_t>{12, 3}));
  auto nibble = [](const std::vector<uint8_t> &bytes, size_t i) {
    return bytes[i / 2] >> (i % 2 * 4) & 15;
  };
  for (size_t column = 0; column < 12; ++column) {
    for (size_t k = 0; k < 70; ++k) {
      int level = down.levels[column * 96 + k];
      EXPECT_EQ(nibble(product, column * 96 + k), level);
      EXPECT_EQ(nibble(own.levels, k * 12 + column), level);
      EXPECT_EQ(nibble(turned.levels, column * 70 + k), level);
    }
  }
  EXPECT_EQ(packZerosForProduct(down).size(), 12U * 2);
}

} // namespace
} // namespace tenon::quant
