// Sequences come first, since each needs a token of its own.
#include "generate/session/PadStep.h"

#include <algorithm>
#include <bit>

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
    padded.rows.resize(stepSize(static_cast<int64_t>(batch.rows.size()), most.rows));
    padded.draws.resize(batch.draws.empty() ? 0 : padded.rows.size());
  }
  return padded;
}

} // namespace tenon::generate
