// Guesses how answers go on by a smaller model with the same tokens, in pages of the same numbers:
// what is shared, given up or cut off of the large model's pages is so of the small one's.
#pragma once

#include "generate/scheduler/Scheduler.h"
#include "generate/service/StepEngine.h"
#include "generate/tokenizer/Tokenizer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace tenon::generate {

/// The batch of some work over pages of an engine. It is of no use without work; a batch without
/// rows has that of the first token, which nobody reads.
StepBatch batchOf(std::span<const Work> works, const PageFacts &pages);

/// One thread at a time.
class DraftModel {
public:
  /// For steps of at most so many requests. TN0105 where `engine` has other pages than those of
  /// `target`, or fewer, or too short steps.
  static Result<std::unique_ptr<DraftModel>> create(std::unique_ptr<StepEngine> engine,
                                                    const PageFacts &target, int64_t requests);
  /// TN0105 for a token that the two models write otherwise.
  static Status checkTokens(const Tokenizer &draft, const Tokenizer &target);

  /// Tokens of a step that it can follow.
  int64_t stepTokens() const { return engine->facts().tokens - requests; }
  /// Draws a token of a work behind `length` tokens from logits, [the target's vocabulary].
  using Choose = std::function<Result<int32_t>(const Work &work, std::span<const float> logits,
                                               int64_t length)>;
  /// Computes what the step does, and of each work as many tokens behind it as `counts` says.
  /// Errors are those of the engine and of `choose`.
  Status run(const Step &step, std::span<const int64_t> counts, const Choose &choose);
  /// What it guessed for a work of that step.
  std::span<const int32_t> guess(const Work &work, int64_t count) const;

  Result<uint64_t> memory() const { return engine->memory(); }

private:
  DraftModel(std::unique_ptr<StepEngine> theEngine, int64_t theTokens, int64_t theRequests)
      : engine(std::move(theEngine)), tokens(theTokens), requests(theRequests) {}

  std::span<const float> inTargetsVocabulary(std::span<const float> own);

  std::unique_ptr<StepEngine> engine;
  int64_t tokens;   ///< of the target's vocabulary
  int64_t requests; ///< of a step
  struct Guess {
    std::vector<int32_t> tokens;
    int64_t end = 0; ///< positions that are in its pages
  };
  std::unordered_map<uint64_t, Guess> guesses; ///< of the last step, by serial
  std::vector<float> logits, row;
};

} // namespace tenon::generate
