// Weights in 8 bits, channel by channel, and normalization in the weights before it.
#include "compiler/quant/Weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace tenon::quant;

namespace {

Floats random(std::vector<int64_t> dims) {
  size_t count = 1;
  for (int64_t dim : dims) {
    count *= static_cast<size_t>(dim);
  }
  std::mt19937 engine(5);
  std::normal_distribution<float> distribution;
  Floats floats{dims, std::vector<float>(count)};
  for (float &value : floats.values) {
    value = distribution(engine);
  }
  return floats;
}

} // namespace

TEST(Weights, EachChannelHasItsScale) {
  for (int64_t axis : {0, 1, 2}) {
    Floats weight = random({4, 6, 5});
    size_t stride = axis == 0 ? 30 : axis == 1 ? 5 : 1;
    size_t channels = static_cast<size_t>(weight.dims[static_cast<size_t>(axis)]);
    auto channelOf = [&](size_t i) { return i / stride % channels; };
    for (size_t i = 0; i < weight.values.size(); ++i) {
      weight.values[i] *= std::pow(10.0F, static_cast<float>(channelOf(i)));
    }
    QuantizedWeight narrow = quantizeWeight(weight, axis);
    ASSERT_EQ(narrow.scales.size(), channels);
    for (size_t i = 0; i < weight.values.size(); ++i) {
      float scale = narrow.scales[channelOf(i)];
      float most = 127 * scale;
      float kept = std::clamp(weight.values[i], -most, most);
      EXPECT_LE(std::fabs(static_cast<float>(narrow.values[i]) * scale - kept), 0.501F * scale);
      EXPECT_GE(narrow.values[i], -127);
    }
    EXPECT_LT(narrow.error, 1e-3);
  }
}

TEST(Weights, AChannelOfZerosHasAScale) {
  QuantizedWeight narrow = quantizeWeight({{2, 3}, {0, 0, 0, 1, 2, 3}}, 0);
  EXPECT_GT(narrow.scales[0], 0);
  EXPECT_EQ(narrow.values[0], 0);
}

TEST(Weights, AnOutlierIsCutWhereThatLosesLess) {
  Floats weight = random({1, 20000});
  weight.values[3] = 6;
  QuantizedWeight narrow = quantizeWeight(weight, 0);
  EXPECT_LT(narrow.scales[0] * 127, 6);
}

TEST(Weights, NormalizationGoesIntoTheWeights) {
  Floats weight = random({3, 2});
  std::vector<float> bias, scale = {1, 2, -1}, shift = {0, 1, 2}, mean = {3, 0, 1},
                           variance = {4, 1, 0.25F};
  Floats folded = weight;
  foldNorm(folded, bias, scale, shift, mean, variance, 0);
  float x[] = {0.5F, -2};
  for (size_t c = 0; c < 3; ++c) {
    float product = weight.values[2 * c] * x[0] + weight.values[2 * c + 1] * x[1];
    float expected = (product - mean[c]) / std::sqrt(variance[c]) * scale[c] + shift[c];
    float actual = folded.values[2 * c] * x[0] + folded.values[2 * c + 1] * x[1] + bias[c];
    EXPECT_NEAR(actual, expected, 1e-5);
  }
}

TEST(Weights, AnOutlierTakesTheLevelsOfOtherInputs) {
  Floats weight = random({16, 64});
  EXPECT_LT(lossOfInputs(weight, 0), 1e-3);
  for (size_t row = 0; row < 16; ++row) {
    weight.values[row * 64 + 5] = 400;
  }
  EXPECT_GT(lossOfInputs(weight, 0), 0.1);
  // The error of all weights stays small: the outlier is most of them.
  EXPECT_LT(quantizeWeight(weight, 0).error, 1e-3);
}
