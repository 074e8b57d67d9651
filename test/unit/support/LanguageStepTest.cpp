// The inputs of a step: each token has a place of its own, which its sequence's pages hold.
#include "support/LanguageStep.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon {
namespace {

void checkStep(const StepSizes &sizes) {
  auto of = [&](const char *role) { return *stepInput(role, sizes); };
  std::vector<int64_t> starts = of("starts"), lengths = of("lengths"), pages = of("pages");
  std::vector<int64_t> positions = of("positions"), slots = of("slots"), rows = of("rows");
  ASSERT_EQ(sizes.sequences + 1, static_cast<int64_t>(starts.size()));
  EXPECT_EQ(0, starts.front());
  EXPECT_EQ(sizes.tokens, starts.back());
  ASSERT_EQ(sizes.sequences * sizes.table, static_cast<int64_t>(pages.size()));
  for (int64_t s = 0; s < sizes.sequences; ++s) {
    EXPECT_LE(starts[s + 1] - starts[s], lengths[s]);
    EXPECT_LE(lengths[s], sizes.longest);
    for (int64_t token = starts[s]; token < starts[s + 1]; ++token) {
      EXPECT_EQ(lengths[s] - starts[s + 1] + token, positions[token]);
      int64_t page = pages[s * sizes.table + positions[token] / sizes.page];
      EXPECT_EQ(page * sizes.page + positions[token] % sizes.page, slots[token]);
    }
  }
  for (int64_t page : pages) {
    EXPECT_TRUE(page >= 0 && page < sizes.pages);
  }
  for (int64_t row : rows) {
    EXPECT_TRUE(row >= 0 && row < sizes.tokens);
  }
  if (sizes.pages >= sizes.sequences * ((sizes.tokens + sizes.page - 1) / sizes.page)) {
    EXPECT_EQ(slots.size(), std::set<int64_t>(slots.begin(), slots.end()).size());
  }
}

TEST(LanguageStep, NumbersAgree) {
  for (int64_t tokens : {1, 5, 64, 469}) {
    for (int64_t sequences : {1, 3, 8}) {
      for (int64_t pages : {1, 7, 64, 1000}) {
        checkStep({.tokens = tokens,
                   .rows = 2,
                   .sequences = sequences,
                   .table = 16,
                   .page = 32,
                   .pages = pages,
                   .longest = 500});
      }
    }
  }
}

TEST(LanguageStep, SequencesAreFromShortToLong) {
  StepSizes sizes = {
      .tokens = 4, .rows = 4, .sequences = 4, .table = 16, .page = 32, .pages = 64, .longest = 512};
  EXPECT_EQ((std::vector<int64_t>{128, 256, 384, 512}), *stepInput("lengths", sizes));
  EXPECT_EQ((std::vector<int64_t>{0, 1, 2, 3}), *stepInput("rows", sizes));
}

TEST(LanguageStep, WithoutPages) {
  StepSizes sizes = {.tokens = 3, .rows = 1, .context = 64};
  EXPECT_EQ(std::vector<int64_t>{61}, *stepInput("start", sizes));
  EXPECT_EQ(std::vector<int64_t>{2}, *stepInput("rows", sizes));
  EXPECT_EQ(63, stepInput("context", sizes)->back());
  EXPECT_FALSE(stepInput("tokens", sizes));
  EXPECT_FALSE(stepInput("slots", sizes));
}

} // namespace
} // namespace tenon
