// The front of the search's knapsack against all selections of up to 12 groups.
#include "compiler/quant/Knapsack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tenon::quant {
namespace {

using Groups = std::vector<std::vector<Choice>>;

/// Sums of every selection.
std::vector<Choice> allSelections(const Groups &groups) {
  std::vector<Choice> sums = {{0, 0}};
  for (const std::vector<Choice> &choices : groups) {
    std::vector<Choice> next;
    for (const Choice &sum : sums) {
      for (const Choice &choice : choices) {
        next.push_back({sum.time + choice.time, sum.error + choice.error});
      }
    }
    sums = std::move(next);
  }
  return sums;
}

/// The least time within an error, of selections of either kind.
template <typename Selections> double leastTime(const Selections &selections, double error) {
  double least = 1e30;
  for (const auto &selection : selections) {
    least = selection.error <= error ? std::min(least, selection.time) : least;
  }
  return least;
}

Groups randomGroups(std::mt19937 &random, size_t count, size_t choices) {
  std::uniform_real_distribution<double> time(-1, 0.2), error(-6, 0);
  Groups groups(count);
  for (std::vector<Choice> &group : groups) {
    group.push_back({0, 0});
    while (group.size() < choices) {
      group.push_back({time(random), std::pow(10, error(random))});
    }
  }
  return groups;
}

TEST(Knapsack, FrontIsThatOfAllSelections) {
  std::mt19937 random(1);
  for (auto [count, choices] :
       {std::pair<size_t, size_t>{1, 2}, {5, 3}, {8, 3}, {12, 2}, {12, 2}}) {
    Groups groups = randomGroups(random, count, choices);
    std::vector<Choice> all = allSelections(groups);
    std::vector<Selection> front = findFront(groups);
    ASSERT_FALSE(front.empty());
    EXPECT_EQ(front.front().error, 0);
    for (double error : {0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 100.0}) {
      EXPECT_NEAR(leastTime(front, error * 1.000001), leastTime(all, error * 1.000001), 1e-9);
    }
    for (size_t i = 0; i < front.size(); ++i) {
      double time = 0, error = 0;
      for (size_t group = 0; group < count; ++group) {
        time += groups[group][front[i].choices[group]].time;
        error += groups[group][front[i].choices[group]].error;
      }
      EXPECT_NEAR(front[i].time, time, 1e-9);
      EXPECT_NEAR(front[i].error, error, 1e-9);
      EXPECT_TRUE(i == 0 ||
                  (front[i].time < front[i - 1].time && front[i].error > front[i - 1].error));
    }
  }
}

TEST(Knapsack, ChangesBetweenGroupsCost) {
  std::mt19937 random(2);
  constexpr double kChange = 0.2;
  for (int repeat = 0; repeat < 5; ++repeat) {
    Groups groups = randomGroups(random, 10, 2);
    std::vector<Choice> all;
    for (size_t bits = 0; bits < 1024; ++bits) {
      Choice sum;
      for (size_t group = 0; group <= groups.size(); ++group) {
        size_t choice = group < groups.size() ? bits >> group & 1 : 0,
               before = group > 0 ? bits >> (group - 1) & 1 : 0;
        sum.time += choice != before ? kChange : 0;
        sum.time += group < groups.size() ? groups[group][choice].time : 0;
        sum.error += group < groups.size() ? groups[group][choice].error : 0;
      }
      all.push_back(sum);
    }
    std::vector<Selection> front = findFront(groups, kChange);
    for (double error : {0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 100.0}) {
      EXPECT_NEAR(leastTime(front, error * 1.000001), leastTime(all, error * 1.000001), 1e-9);
    }
  }
}

TEST(Knapsack, ManyGroupsAreThinnedOut) {
  std::mt19937 random(2);
  Groups groups = randomGroups(random, 60, 3);
  std::vector<Selection> front = findFront(groups, 0, 256), finer = findFront(groups, 0, 4096);
  EXPECT_LE(front.size(), 256U);
  EXPECT_EQ(front.front().error, 0);
  EXPECT_NEAR(front.back().time, finer.back().time, 1e-9);
  // A middle of the front is within a few percent of the finer one's.
  double error = finer[finer.size() / 2].error;
  EXPECT_LT(leastTime(front, error), 0.95 * leastTime(finer, error));
}

TEST(Knapsack, EqualChoicesStayWide) {
  Groups groups = {{{0, 0}, {0, 0.5}, {0, 0}}, {{0, 0}, {0.1, 0}}};
  std::vector<Selection> front = findFront(groups);
  ASSERT_EQ(front.size(), 1U);
  EXPECT_EQ(front[0].choices, (std::vector<uint8_t>{0, 0}));
}

TEST(Knapsack, InfiniteErrorsAreLast) {
  Groups groups = {{{0, 0}, {-1, INFINITY}}, {{0, 0}, {-1, 0.1}}};
  std::vector<Selection> front = findFront(groups);
  ASSERT_EQ(front.size(), 3U);
  EXPECT_EQ(front[1].choices, (std::vector<uint8_t>{0, 1}));
}

} // namespace
} // namespace tenon::quant
