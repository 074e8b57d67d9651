// Implements steps as runs of sequences: what a page holds is what its sequence has.
#include "generate/service/StepEngine.h"

#include <algorithm>

namespace tenon::generate {

Result<std::unique_ptr<StepEngine>> PagedEngine::create(const LanguageModel &model,
                                                        unsigned threads) {
  TENON_ASSIGN(StepSession session, StepSession::create(model, threads));
  return std::unique_ptr<StepEngine>(new PagedEngine(std::move(session)));
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

Status SequenceEngine::run(const StepBatch &batch, std::span<float> logits) {
  int64_t row = 0, rows = static_cast<int64_t>(batch.rows.size()),
          vocabulary = pageFacts.vocabulary;
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < batch.lengths.size(); ++i) {
    int64_t first = batch.starts[i], end = batch.starts[i + 1];
    Sequence &sequence = sequences[batch.pages[i]];
    sequence.cut(batch.positions[first]);
    tokens.assign(batch.tokens.begin() + first, batch.tokens.begin() + end);
    TENON_ASSIGN(std::span<const float> last, sequence.append(tokens));
    if (row < rows && batch.rows[row] == end - 1) {
      std::ranges::copy(last, logits.begin() + row * vocabulary);
      ++row;
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
