// Range estimators on distributions whose best range is known.
#include "compiler/quant/Range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

using namespace tenon::quant;

namespace {

constexpr int kBits = 13;

/// Counts as the observers of an engine do.
Histogram observe(const std::vector<float> &values) {
  std::vector<int32_t> counts(size_t{1} << kBits);
  float low = std::numeric_limits<float>::infinity(), high = -low;
  for (float value : values) {
    ++counts[std::bit_cast<uint32_t>(value) >> (32 - kBits)];
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Histogram histogram;
  histogram.add(counts, low, high);
  return histogram;
}

std::vector<float> normal(size_t count, float deviation) {
  std::mt19937 engine(1);
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<float> values(count);
  for (float &value : values) {
    value = distribution(engine);
  }
  return values;
}

/// The mean square of what 8 bits lose, element by element.
double exactError(const std::vector<float> &values, Range range) {
  Affine affine = affineOf(range);
  double sum = 0;
  for (float value : values) {
    double q = std::clamp(std::nearbyint(double(value) / affine.scale) + affine.zero, 0.0, 255.0);
    double error = value - (q - affine.zero) * affine.scale;
    sum += error * error;
  }
  return sum / static_cast<double>(values.size());
}

} // namespace

TEST(Range, MinMaxIsExact) {
  Histogram histogram = observe({-1.25F, 0.1F, 3.7F});
  Range range = estimateRange(histogram, RangeMethod::MinMax, 0);
  EXPECT_EQ(range.low, -1.25);
  EXPECT_EQ(static_cast<float>(range.high), 3.7F);
}

TEST(Range, ZeroIsALevel) {
  for (Range range : {Range{-1.3, 2.9}, Range{0.5, 2.0}, Range{-4, -1}, Range{0, 0}}) {
    Affine affine = affineOf(range);
    EXPECT_GT(affine.scale, 0);
    EXPECT_LE(affine.zero, 255);
    // The range, widened to 0, is what the levels span.
    double low = -double(affine.zero) * affine.scale, high = low + 255 * affine.scale;
    EXPECT_NEAR(low, std::min(range.low, 0.0), affine.scale);
    EXPECT_NEAR(high, std::max(range.high, 0.0), range.high == range.low ? 256 : affine.scale);
  }
}

TEST(Range, ErrorOfTheHistogramIsThatOfTheElements) {
  std::vector<float> values = normal(100000, 1.5F);
  Histogram histogram = observe(values);
  for (Range range : {Range{-6, 6}, Range{-3, 2}, Range{-0.5, 0.5}, Range{-40, 40}}) {
    double exact = exactError(values, range);
    EXPECT_NEAR(squaredError(histogram, range), exact, 0.05 * exact);
  }
}

TEST(Range, MseCutsAnOutlier) {
  std::vector<float> values = normal(100000, 1);
  values[17] = 300;
  Histogram histogram = observe(values);
  Range best = estimateRange(histogram, RangeMethod::Mse, 0);
  Range whole = estimateRange(histogram, RangeMethod::MinMax, 0);
  EXPECT_EQ(whole.high, 300);
  // One value at 300 costs 0.9 on average; what is gained by cutting less is less.
  EXPECT_LT(exactError(values, best), exactError(values, whole));
  EXPECT_LE(exactError(values, best), exactError(values, {-4, 300}));
}

TEST(Range, MseKeepsAllOfEvenValues) {
  std::vector<float> values;
  for (int i = 0; i < 10000; ++i) {
    values.push_back(static_cast<float>(i) / 1000);
  }
  Range best = estimateRange(observe(values), RangeMethod::Mse, 0);
  EXPECT_NEAR(best.high, 9.999, 0.2);
  EXPECT_EQ(best.low, 0);
}

TEST(Range, PercentileCutsBothEnds) {
  std::vector<float> values;
  for (int i = -10000; i <= 10000; ++i) {
    values.push_back(static_cast<float>(i));
  }
  Range range = estimateRange(observe(values), RangeMethod::Percentile, 99);
  EXPECT_NEAR(range.low, -9800, 150);
  EXPECT_NEAR(range.high, 9800, 150);
}

TEST(Range, MovingAverageIsOfRuns) {
  Histogram histogram;
  std::vector<int32_t> counts(size_t{1} << kBits);
  counts[0] = 1;
  histogram.add(counts, -1, 1);
  histogram.add(counts, -1, 11);
  Range range = estimateRange(histogram, RangeMethod::MovingAverage, 0);
  EXPECT_NEAR(range.high, 2, 1e-9);
  EXPECT_EQ(histogram.high(), 11);
}

TEST(Range, OfZerosIsEmpty) {
  Histogram histogram = observe(std::vector<float>(100, 0.0F));
  for (RangeMethod method : kRangeMethods) {
    Range range = estimateRange(histogram, method, 99);
    EXPECT_EQ(range.low, 0);
    EXPECT_EQ(range.high, 0);
  }
}

TEST(Range, EntropyCanBeWorseThanMinMax) {
  // Most values are small, and what matters is far from them.
  std::vector<float> values = normal(100000, 0.01F);
  for (size_t i = 0; i < 200; ++i) {
    values[i] = 10;
  }
  Histogram histogram = observe(values);
  Range entropy = estimateRange(histogram, RangeMethod::Entropy, 0);
  Range mse = estimateRange(histogram, RangeMethod::Mse, 0);
  Range whole = estimateRange(histogram, RangeMethod::MinMax, 0);
  EXPECT_GT(exactError(values, entropy), exactError(values, whole));
  EXPECT_LE(exactError(values, mse), exactError(values, whole) * 1.01);
}

TEST(Histogram, MergesByAddition) {
  std::vector<float> values = normal(1000, 2), other = normal(500, 9), all = values;
  all.insert(all.end(), other.begin(), other.end());
  Histogram merged = observe(values);
  merged.merge(observe(other));
  Histogram whole = observe(all);
  EXPECT_EQ(merged.elements(), whole.elements());
  EXPECT_EQ(merged.low(), whole.low());
  EXPECT_EQ(merged.high(), whole.high());
  EXPECT_EQ(merged.bins().size(), whole.bins().size());
}

TEST(Histogram, CountsWhatIsNotFinite) {
  float infinity = std::numeric_limits<float>::infinity();
  Histogram histogram = observe({1, infinity, -infinity, std::nanf(""), 2});
  EXPECT_EQ(histogram.notFinite(), 3U);
  EXPECT_EQ(observe({1, 2, -3}).notFinite(), 0U);
}

TEST(Histogram, BinsAscendAndHoldTheirElements) {
  std::vector<float> values = normal(10000, 3);
  uint64_t count = 0;
  double before = -std::numeric_limits<double>::infinity();
  for (const Histogram::Bin &bin : observe(values).bins()) {
    EXPECT_LE(bin.low, bin.high);
    EXPECT_GE(bin.low, before);
    before = bin.low;
    count += bin.count;
  }
  EXPECT_EQ(count, values.size());
}
