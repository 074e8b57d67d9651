// Sequences come first, since each needs a token of its own.
#include "generate/session/PadStep.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tenon::generate {

int64_t stepSize(int64_t count, int64_t most) {
  constexpr int64_t kHalved = 16; // below, halves are too near
  int64_t size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
  int64_t lower = size / 4 * 3;
  size = size >= kHalved && count <= lower ? lower : size;
  return std::min(size, most);
}

StepBatch padStep(const StepBatch &batch, const PageFacts &most, bool padsRows) {
  StepBatch padded = batch;
  int64_t tokens = static_cast<int64_t>(batch.tokens.size());
  int64_t sequences = static_cast<int64_t>(batch.lengths.size());
  int64_t added = stepSize(sequences, most.sequences) - sequences;
  int64_t used = batch.starts.back();
  // Padding of the caller's would lie between.
  added = used == tokens && tokens + added <= most.tokens ? added : 0;
  for (int64_t i = 1; i <= added; ++i) {
    padded.starts.push_back(used + i);
    padded.lengths.push_back(1);
  }
  padded.pages.resize((sequences + added) * most.table);
  int64_t size = stepSize(tokens + added, most.tokens);
  padded.tokens.resize(size);
  padded.positions.resize(size);
  padded.slots.resize(size, -1);
  if (padsRows) {
    int64_t rows = stepSize(static_cast<int64_t>(batch.rows.size()), most.rows);
    padded.rows.resize(std::max(rows, std::min(sequences + added, most.rows)));
    padded.draws.resize(batch.draws.empty() ? 0 : padded.rows.size());
  }
  return padded;
}

std::vector<StepSize> stepSizes(const StepSize &upTo, const PageFacts &most) {
  auto upFrom = [](int64_t least, int64_t largest, int64_t limit) {
    std::vector<int64_t> sizes;
    for (int64_t count = least; count <= largest; count = sizes.front() + 1) {
      sizes.insert(sizes.begin(), stepSize(count, limit));
    }
    return sizes;
  };
  int64_t tokens = std::min(upTo.tokens, most.tokens);
  std::vector<StepSize> sizes;
  for (int64_t sequences : upFrom(1, std::min(upTo.sequences, most.sequences), most.sequences)) {
    for (int64_t count : upFrom(sequences, tokens, most.tokens)) {
      sizes.push_back({count, sequences});
    }
  }
  std::ranges::stable_sort(sizes, std::ranges::greater(), &StepSize::tokens);
  return sizes;
}

StepBatch emptyStep(const StepSize &size, const PageFacts &most) {
  StepBatch step;
  step.tokens.resize(size.tokens);
  step.positions.resize(size.tokens);
  step.slots.resize(size.tokens, -1);
  step.pages.resize(size.sequences * most.table);
  step.starts = {0};
  int64_t left = size.tokens;
  for (int64_t others = size.sequences - 1; others >= 0; --others) {
    step.lengths.push_back(std::min(left - others, most.table * most.page));
    left -= step.lengths.back();
    step.starts.push_back(size.tokens - left);
  }
  step.rows.resize(std::min(size.sequences, most.rows));
  step.draws.resize(step.rows.size());
  return step;
}

} // namespace tenon::generate
