// Quantiles and ratios of times against values worked out by hand.

#include "tools/tenon/bench/Statistics.h"

#include <gtest/gtest.h>

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
}

} // namespace
} // namespace tenon::tool
