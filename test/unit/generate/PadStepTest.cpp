#include "generate/session/PadStep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tenon::generate {
namespace {

constexpr PageFacts kMost = {.page = 4,
                             .pages = 16,
                             .table = 3,
                             .tokens = 100,
                             .sequences = 20,
                             .rows = 10,
                             .vocabulary = 7};

/// Sequences with so many new tokens each, and the last token's row of each.
StepBatch stepOf(const std::vector<int64_t> &counts) {
  StepBatch batch;
  batch.starts.push_back(0);
  for (int64_t count : counts) {
    for (int64_t i = 0; i < count; ++i) {
      batch.tokens.push_back(5);
      batch.positions.push_back(i);
      batch.slots.push_back(static_cast<int64_t>(batch.slots.size()));
    }
    batch.starts.push_back(static_cast<int64_t>(batch.tokens.size()));
    batch.lengths.push_back(count);
    batch.pages.insert(batch.pages.end(), {1, 2, 3});
    batch.rows.push_back(batch.starts.back() - 1);
    batch.draws.push_back({.temperature = 1});
  }
  return batch;
}

template <typename List> bool beginsWith(const List &whole, const List &part) {
  return whole.size() >= part.size() && std::equal(part.begin(), part.end(), whole.begin());
}

TEST(PadStep, SizesAreFewAndHoldWhatTheyAreFor) {
  EXPECT_EQ(1, stepSize(1, 64));
  EXPECT_EQ(8, stepSize(5, 64));
  EXPECT_EQ(12, stepSize(9, 64));
  EXPECT_EQ(16, stepSize(13, 64));
  EXPECT_EQ(10, stepSize(9, 10));
  int64_t last = 0, sizes = 0;
  for (int64_t count = 1; count <= 512; ++count) {
    int64_t size = stepSize(count, 512);
    ASSERT_GE(size, count);
    ASSERT_GE(size, last);
    sizes += size > last ? 1 : 0;
    last = size;
  }
  EXPECT_LE(sizes, 16);
}

TEST(PadStep, PaddingWritesNothingAndFollowsTheStep) {
  for (const std::vector<int64_t> &counts :
       std::vector<std::vector<int64_t>>{{1}, {1, 1, 1, 1, 1}, {17, 1, 1}, {90, 1}, {99, 1}}) {
    StepBatch batch = stepOf(counts), padded = padStep(batch, kMost, true);
    size_t tokens = padded.tokens.size(), sequences = padded.lengths.size();
    EXPECT_TRUE(beginsWith(padded.tokens, batch.tokens) && beginsWith(padded.slots, batch.slots) &&
                beginsWith(padded.positions, batch.positions) &&
                beginsWith(padded.starts, batch.starts) && beginsWith(padded.pages, batch.pages) &&
                beginsWith(padded.lengths, batch.lengths) && beginsWith(padded.rows, batch.rows));
    EXPECT_TRUE(std::all_of(padded.slots.begin() + batch.slots.size(), padded.slots.end(),
                            [](int64_t slot) { return slot == -1; }));
    EXPECT_EQ(tokens, static_cast<size_t>(stepSize(tokens, kMost.tokens)));
    EXPECT_EQ(tokens, padded.positions.size());
    EXPECT_EQ(tokens, padded.slots.size());
    EXPECT_EQ(sequences + 1, padded.starts.size());
    EXPECT_EQ(sequences * kMost.table, padded.pages.size());
    EXPECT_LE(padded.starts.back(), static_cast<int64_t>(tokens));
    for (size_t s = 0; s < sequences; ++s) {
      EXPECT_LE(1, padded.starts[s + 1] - padded.starts[s]);
    }
    EXPECT_EQ(padded.rows.size(), padded.draws.size());
    EXPECT_EQ(batch.rows.size(), padStep(batch, kMost, false).rows.size());
  }
}

TEST(PadStep, SizesAreThoseOfAllSteps) {
  std::vector<StepSize> sizes = stepSizes({64, 9}, kMost);
  EXPECT_EQ(64, sizes.front().tokens);
  EXPECT_EQ(12, sizes.front().sequences);
  auto sizeOf = [](const StepBatch &step) {
    return std::pair(step.tokens.size(), step.lengths.size());
  };
  std::set<std::pair<size_t, size_t>> known, met;
  for (const StepSize &size : sizes) {
    StepBatch step = emptyStep(size, kMost);
    EXPECT_EQ(sizeOf(step), std::pair(size_t(size.tokens), size_t(size.sequences)));
    EXPECT_TRUE(known.insert(sizeOf(step)).second);
    StepBatch padded = padStep(step, kMost, true);
    EXPECT_EQ(sizeOf(step), sizeOf(padded));
    EXPECT_EQ(step.rows.size(), padded.rows.size());
    EXPECT_TRUE(std::ranges::all_of(step.slots, [](int64_t slot) { return slot == -1; }));
    for (size_t s = 0; s < step.lengths.size(); ++s) {
      EXPECT_EQ(step.lengths[s], step.starts[s + 1] - step.starts[s]);
      EXPECT_GE(step.lengths[s], 1);
      EXPECT_LE(step.lengths[s], kMost.table * kMost.page);
    }
  }
  for (int64_t sequences = 1; sequences <= 9; ++sequences) {
    for (int64_t first = 1; first + sequences - 1 <= 64; ++first) {
      std::vector<int64_t> counts(sequences, 1);
      counts[0] = first;
      StepBatch padded = padStep(stepOf(counts), kMost, true);
      if (padded.tokens.size() <= 64) {
        met.insert(sizeOf(padded));
      }
      EXPECT_EQ(std::min<int64_t>(padded.lengths.size(), kMost.rows), padded.rows.size());
    }
  }
  EXPECT_EQ(known, met);
}

} // namespace
} // namespace tenon::generate
