// An engine with pages whose logits are a hash of all tokens that a sequence finds in its pages: a
// wrong page gives another text.
#pragma once

#include "generate/service/StepEngine.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace tenon::generate {

inline uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xBF58476D1CE4E5B9;
  return hash ^ hash >> 29;
}

/// What follows a text, which is not empty.
inline void hashLogits(std::span<const int32_t> tokens, std::span<float> logits) {
  uint64_t hash = 7;
  for (int32_t token : tokens) {
    hash = mixed(hash, static_cast<uint64_t>(token));
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(mixed(hash, i) >> 44) * 0x1p-17f; // from 0 to 8
  }
  // Mostly says again what it said behind the last token before.
  auto before = std::find(tokens.rbegin() + 1, tokens.rend(), tokens.back());
  if (before != tokens.rend() && *(before - 1) >= 0 && hash % 4 != 0) {
    logits[*(before - 1)] += 12;
  }
}

class HashEngine final : public StepEngine {
public:
  explicit HashEngine(const PageFacts &theFacts, bool draws = false)
      : isDrawing(draws), pageFacts(theFacts), cells(theFacts.pages * theFacts.page) {}

  const PageFacts &facts() const override { return pageFacts; }
  Result<uint64_t> memory() const override { return cells.size() * sizeof(Cell); }

  bool draws() const override { return isDrawing; }

  Status run(const StepBatch &batch, std::span<float> logits, std::span<Draw> drawn) override {
    ++steps;
    if (failAt == steps) {
      return Status::error(ErrorId::OutOfMemory, "planted");
    }
    int64_t tokens = static_cast<int64_t>(batch.tokens.size()),
            sequences = static_cast<int64_t>(batch.lengths.size());
    bool isRight =
        tokens >= 1 && tokens <= pageFacts.tokens && sequences <= pageFacts.sequences &&
        batch.starts.size() == sequences + 1UL &&
        batch.pages.size() == static_cast<size_t>(sequences * pageFacts.table) &&
        batch.starts.back() == tokens && !batch.rows.empty() &&
        batch.rows.size() <= static_cast<size_t>(pageFacts.rows) &&
        (batch.draws.empty() || (isDrawing && batch.draws.size() == batch.rows.size())) &&
        drawn.size() == batch.draws.size() && (batch.fetched.empty() || isDrawing) &&
        (logits.size() == (batch.fetched.empty() ? batch.rows : batch.fetched).size() *
                              static_cast<size_t>(pageFacts.vocabulary) ||
         (isDrawing && logits.empty()));
    if (!isRight) {
      return Status::error(ErrorId::InternalError, "a batch contradicts itself");
    }
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t t = batch.starts[s]; t < batch.starts[s + 1]; ++t) {
        Cell &place = cell(batch, s, batch.positions[t]);
        if (&place != &cells[batch.slots[t]] || place.step == steps ||
            batch.positions[t] != batch.lengths[s] - (batch.starts[s + 1] - t)) {
          return Status::error(ErrorId::InternalError, "a slot is not its position's");
        }
        place = {static_cast<int32_t>(batch.tokens[t]), steps};
      }
    }
    for (size_t row = 0; row < batch.rows.size(); ++row) {
      int64_t t = batch.rows[row], s = 0;
      while (batch.starts[s + 1] <= t) {
        ++s;
      }
      std::vector<int32_t> read;
      for (int64_t p = 0; p <= batch.positions[t]; ++p) {
        const Cell &place = cell(batch, s, p);
        // What another sequence writes in the same step is not there yet.
        bool isEarly = p < batch.positions[batch.starts[s]] && place.step == steps;
        read.push_back(isEarly ? -2 : place.token);
      }
      std::vector<float> own(pageFacts.vocabulary);
      hashLogits(read, own);
      if (row == 0 && spoilAt == steps) {
        own[0] = std::numeric_limits<float>::quiet_NaN();
      }
      if (!drawn.empty()) {
        drawn[row] = drawOf(own, batch.draws[row]);
      }
      auto place = std::ranges::find(batch.fetched, static_cast<int64_t>(row));
      if (!logits.empty() && (batch.fetched.empty() || place != batch.fetched.end())) {
        size_t number = batch.fetched.empty() ? row : place - batch.fetched.begin();
        std::ranges::copy(own, logits.begin() + number * own.size());
        ++rowsOfLogits;
      }
    }
    return Status::ok();
  }

  int64_t steps = 0;
  int64_t failAt = 0, spoilAt = 0; ///< the step that fails, or whose first logits are spoiled
  int64_t rowsOfLogits = 0;

private:
  static Draw drawOf(std::span<const float> logits, const DrawParameters &parameters) {
    SamplingOptions options = {.temperature = parameters.temperature,
                               .topK = parameters.topK,
                               .topP = parameters.topP,
                               .minP = parameters.minP,
                               .seed = parameters.seed};
    Result<Draw> draw = Sampler(options, {}).draw(logits, parameters.position);
    return draw ? *draw : Draw{.token = -1};
  }

  bool isDrawing;
  struct Cell {
    int32_t token = -1;
    int64_t step = 0; ///< in which it was written
  };
  Cell &cell(const StepBatch &batch, int64_t sequence, int64_t position) {
    int64_t page = batch.pages[sequence * pageFacts.table + position / pageFacts.page];
    return cells[page * pageFacts.page + position % pageFacts.page];
  }

  PageFacts pageFacts;
  std::vector<Cell> cells;
};

} // namespace tenon::generate
