// Implements steps as runs of sequences: what a page holds is what its sequence has.
#include "generate/service/StepEngine.h"

#include <algorithm>

namespace tenon::generate {

Result<std::unique_ptr<StepEngine>> PagedEngine::create(const LanguageModel &model,
                                                        unsigned threads, int64_t pages) {
  TENON_ASSIGN(StepSession session, StepSession::create(model, threads, pages));
  return std::unique_ptr<StepEngine>(new PagedEngine(std::move(session)));
}

bool PagedEngine::rehearse(int64_t tokens, int64_t sequences) {
  if (!unrehearsed) {
    unrehearsed = session.sizes(tokens, sequences);
    std::ranges::reverse(*unrehearsed);
  }
  if (unrehearsed->empty()) {
    return false;
  }
  StepSize size = unrehearsed->back();
  unrehearsed->pop_back();
  // A step of the same size that somebody waits for says what is wrong.
  if (!session.rehearse(size).isOk()) {
    unrehearsed->clear();
  }
  return !unrehearsed->empty();
}

Result<std::unique_ptr<StepEngine>> SequenceEngine::create(const LanguageModel &model,
                                                           int64_t sequences, unsigned threads) {
  std::unique_ptr<SequenceEngine> engine(new SequenceEngine());
  const ModelFacts &facts = model.facts();
  engine->pageFacts = {.page = facts.positions,
                       .pages = sequences,
                       .table = 1,
                       .tokens = facts.positions * sequences,
                       .sequences = sequences,
                       .rows = sequences,
                       .vocabulary = facts.vocabulary};
  for (int64_t i = 0; i < sequences; ++i) {
    TENON_ASSIGN(Sequence sequence, Sequence::create(model, threads));
    engine->sequences.push_back(std::move(sequence));
  }
  return std::unique_ptr<StepEngine>(std::move(engine));
}

Status SequenceEngine::run(const StepBatch &batch, std::span<float> logits, std::span<Draw>) {
  std::vector<int32_t> tokens;
  std::span<const int64_t> rows = batch.rows; // those that are not written yet
  auto write = [&](std::span<const float> row) {
    std::ranges::copy(row, logits.begin());
    logits = logits.subspan(row.size());
    rows = rows.subspan(1);
  };
  for (size_t i = 0; i < batch.lengths.size(); ++i) {
    int64_t first = batch.starts[i], end = batch.starts[i + 1], start = batch.positions[first];
    tokens.assign(batch.tokens.begin() + first, batch.tokens.begin() + end);
    Sequence &sequence = sequences[batch.pages[i]];
    sequence.cut(start);
    if (!rows.empty() && rows[0] < end - 1) {
      TENON_TRY(sequence.appendAll(tokens, [&](int64_t position, std::span<const float> row) {
        if (!rows.empty() && rows[0] - first == position - start) {
          write(row);
        }
        return Status::ok();
      }));
      continue;
    }
    TENON_ASSIGN(std::span<const float> last, sequence.append(tokens));
    if (!rows.empty() && rows[0] == end - 1) {
      write(last);
    }
  }
  return Status::ok();
}

Result<uint64_t> SequenceEngine::memory() const {
  uint64_t bytes = 0;
  for (const Sequence &sequence : sequences) {
    TENON_ASSIGN(uint64_t each, sequence.memory());
    bytes += each;
  }
  return bytes;
}

} // namespace tenon::generate
