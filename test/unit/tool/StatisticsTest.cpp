// Quantiles and ratios of times against values worked out by hand.

#include "tools/tenon/bench/Statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tenon::tool {
namespace {

TEST(Statistics, QuantilesInterpolate) {
  std::vector<double> sorted = {1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.9), 4.6);
  EXPECT_DOUBLE_EQ(quantile(sorted, 1), 5);
  std::vector<double> one = {7};
  EXPECT_DOUBLE_EQ(quantile(one, 0.99), 7);
}

TEST(Statistics, LatencyDoesNotDependOnOrder) {
  LatencySummary summary = summarizeLatency({5, 1, 3, 2, 4});
  EXPECT_DOUBLE_EQ(summary.min, 1);
  EXPECT_DOUBLE_EQ(summary.median, 3);
  EXPECT_DOUBLE_EQ(summary.p90, 4.6);
}

TEST(Statistics, RatioIsOtherOverOwnAndItsIntervalHoldsIt) {
  std::vector<double> own = {1.0, 1.1, 1.2, 1.0, 1.1, 1.3};
  std::vector<double> other = {2.0, 2.2, 2.4, 2.0, 2.2, 2.6};
  RatioSummary ratio = compareLatency(own, other);
  EXPECT_DOUBLE_EQ(ratio.ofMinima, 2);
  EXPECT_DOUBLE_EQ(ratio.ofMedians, 2);
  EXPECT_LE(ratio.low, 2);
  EXPECT_GE(ratio.high, 2);
  EXPECT_GT(ratio.low, 1.5);
  EXPECT_LT(ratio.high, 2.7);
  EXPECT_TRUE(ratio.differs());
  EXPECT_FALSE(compareLatency(own, own).differs());
  own.pop_back();
  other.pop_back();
  EXPECT_FALSE(compareLatency(own, other).differs())
      << "five pairs of equal engines are in one order once in sixteen";
}

/// Times of two equal engines on a machine whose speed wanders for many runs at a time.
TEST(Statistics, EstimatesOfDisturbedRuns) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int medians = 0, means = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> own, other;
    double slowness = 0;
    for (int i = 0; i < 1000; ++i) {
      slowness = 0.95 * slowness + 0.1 * normal(random);
      own.push_back(std::exp(slowness + 0.05 * normal(random)));
      slowness = 0.95 * slowness + 0.1 * normal(random);
      other.push_back(std::exp(slowness + 0.05 * normal(random)));
    }
    Estimate median = estimateQuantileRatio(own, other, 0.5), mean = estimateMeanRatio(own, other);
    medians += median.low > 1 || median.high < 1;
    EXPECT_EQ(compareLatency(own, other).differs(), median.low > 1 || median.high < 1);
    means += mean.low > 1 || mean.high < 1;
    EXPECT_LT(median.high / median.low, 1.2);
  }
  EXPECT_LE(medians, kTrials / 10);
  EXPECT_LE(means, kTrials / 10);
}

TEST(Statistics, EstimatesFindWhatDiffers) {
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  std::vector<double> own, slower;
  for (int i = 0; i < 2000; ++i) {
    own.push_back(std::exp(0.1 * normal(random)));
    slower.push_back(1.1 * std::exp(0.1 * normal(random)));
  }
  Estimate ratio = estimateQuantileRatio(own, slower, 0.5);
  EXPECT_TRUE(ratio.low > 1.07 && ratio.high < 1.13 && ratio.low < ratio.value &&
              ratio.value < ratio.high);
  EXPECT_GT(estimateQuantileRatio(own, slower, 0.99).low, 1);
  Estimate median = estimateQuantile(own, 0.5), mean = estimateMean(own);
  EXPECT_TRUE(median.low < 1.01 && median.high > 0.99 && median.high - median.low < 0.05);
  EXPECT_NEAR(std::exp(0.005), mean.value, 0.01);
}

TEST(Statistics, EstimatesOfFewRuns) {
  std::vector<double> times(499, 1.0), few(9, 1.0);
  EXPECT_TRUE(std::isnan(estimateQuantile(times, 0.99).low)) << "fewer than five lie beyond it";
  EXPECT_EQ(1, estimateQuantile(times, 0.5).low);
  EXPECT_TRUE(std::isnan(estimateMean(few).high));
  times.push_back(1);
  EXPECT_EQ(1, estimateQuantile(times, 0.99).high);
}

} // namespace
} // namespace tenon::tool
