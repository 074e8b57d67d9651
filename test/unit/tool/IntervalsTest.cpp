// Intervals hold the truth about as often as they say, for shares, means and differences of pairs.

#include "tools/tenon/accuracy/Intervals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace tenon::tool {
namespace {

constexpr int kDraws = 600;

/// How often an interval of one draw holds `truth`.
double coverage(double truth, const std::function<Interval(std::mt19937_64 &)> &draw) {
  std::mt19937_64 random(7);
  int held = 0;
  for (int i = 0; i < kDraws; ++i) {
    held += draw(random).contains(truth) ? 1 : 0;
  }
  return held / static_cast<double>(kDraws);
}

double uniform(std::mt19937_64 &random) { return std::uniform_real_distribution<double>()(random); }

TEST(Intervals, WilsonsAreThoseOfTheTables) {
  // Newcombe, Statistics in Medicine 17 (1998), 857-872, table I.
  Interval many = shareInterval(81, 263);
  EXPECT_NEAR(many.low, 0.2553, 5e-5);
  EXPECT_NEAR(many.high, 0.3662, 5e-5);
  Interval none = shareInterval(0, 20);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.1611, 5e-5);
}

TEST(Intervals, OfSharesHoldTheTruth) {
  double held = coverage(0.9, [](std::mt19937_64 &random) {
    RatioScores scores(RatioKind::Share);
    for (int i = 0; i < 100; ++i) {
      scores.add(uniform(random) < 0.9 ? 1 : 0, 1);
    }
    return intervalOf(scores);
  });
  EXPECT_GT(held, 0.92);
  EXPECT_LT(held, 0.98);
}

TEST(Intervals, OfDifferencesOfPairsHoldTheTruth) {
  // Both models know 80 %; of the rest the first knows a half, the other three of ten.
  auto draw = [](std::mt19937_64 &random) {
    RatioScores first(RatioKind::Share), other(RatioKind::Share);
    for (int i = 0; i < 200; ++i) {
      bool isEasy = uniform(random) < 0.8;
      first.add(isEasy || uniform(random) < 0.5 ? 1 : 0, 1);
      other.add(isEasy || uniform(random) < 0.3 ? 1 : 0, 1);
    }
    return intervalOfDifference(first, other);
  };
  double held = coverage(0.2 * -0.2, draw);
  EXPECT_GT(held, 0.92);
  EXPECT_LT(held, 0.985);
  std::mt19937_64 random(1);
  Interval one = draw(random);
  // As if the pairs were not of the same samples, it would be twice as wide.
  EXPECT_LT(one.high - one.low, 0.15);
}

TEST(Intervals, OfMeansHoldTheTruth) {
  double held = coverage(-0.1, [](std::mt19937_64 &random) {
    RatioScores first(RatioKind::Mean), other(RatioKind::Mean);
    std::normal_distribution<double> normal;
    for (int i = 0; i < 60; ++i) {
      double common = 5 * normal(random);
      first.add(common + normal(random), 1);
      other.add(common - 0.1 + normal(random), 1);
    }
    return intervalOfDifference(first, other);
  });
  EXPECT_GT(held, 0.91);
  EXPECT_LT(held, 0.985);
}

TEST(Intervals, EqualModelsDoNotDiffer) {
  RatioScores scores(RatioKind::Share);
  for (int i = 0; i < 1000; ++i) {
    scores.add(i % 10 == 0 ? 0 : 1, 1);
  }
  Interval interval = intervalOfDifference(scores, scores);
  EXPECT_TRUE(interval.contains(0));
  EXPECT_LT(interval.high, 0.005);
}

TEST(Intervals, ValuesThatAreNoNumbersDifferFromThoseThatAre) {
  double nan = std::nan("");
  EXPECT_EQ(differ(1, 2, {0.5, 1.5}), true);
  EXPECT_EQ(differ(1, 2, {-0.5, 1.5}), false);
  EXPECT_EQ(differ(1, nan, {nan, nan}), true);
  EXPECT_EQ(differ(INFINITY, 1, {-INFINITY, 1}), true);
  EXPECT_EQ(differ(nan, INFINITY, {nan, nan}), std::nullopt);
  EXPECT_EQ(differ(1, 2, {0.5, nan}), std::nullopt);
}

TEST(Intervals, MeansThatAreAllZeroAreNoShares) {
  RatioScores scores(RatioKind::Mean);
  for (int i = 0; i < 6; ++i) {
    scores.add(0, 1);
  }
  EXPECT_EQ(intervalOf(scores).high, 0);
}

TEST(Scores, F1IsTheMeanOverClasses) {
  F1Scores scores;
  for (auto [label, predicted] : {std::pair{0, 0}, {0, 1}, {1, 1}, {2, -1}}) {
    scores.beginSample();
    scores.add(label, predicted);
  }
  EXPECT_NEAR(scores.overall(), (2.0 / 3 + 2.0 / 3 + 0) / 3, 1e-12);
}

TEST(Scores, F1KeepsClassesOfASampleAndNotItsPlaces) {
  F1Scores scores;
  for (int sample = 0; sample < 2; ++sample) {
    scores.beginSample();
    for (int64_t place = 0; place < 3000; ++place) {
      scores.add(place % 3, sample == 0 ? place % 3 : -1);
    }
  }
  EXPECT_EQ(scores.parts(), 6u);
  EXPECT_NEAR(scores.overall(), 2.0 / 3, 1e-12);
  EXPECT_EQ(scores.value(std::vector<uint32_t>{1, 0}), 1);
  EXPECT_EQ(scores.value(std::vector<uint32_t>{0, 3}), 0);
}

TEST(Scores, PerplexityIsOfAllTokensTogether) {
  RatioScores scores(RatioKind::Exponential);
  scores.add(std::log(2.0) * 3, 3);
  scores.add(std::log(8.0), 1);
  EXPECT_NEAR(scores.overall(), std::exp((std::log(2.0) * 3 + std::log(8.0)) / 4), 1e-12);
}

} // namespace
} // namespace tenon::tool
