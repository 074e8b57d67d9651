// What a service computes its steps on.
#pragma once

#include "generate/session/LanguageModel.h"
#include "generate/session/StepSession.h"

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tenon::generate {

/// One thread at a time.
class StepEngine {
public:
  virtual ~StepEngine() = default;
  virtual const PageFacts &facts() const = 0;
  virtual bool draws() const { return false; }
  /// As StepSession::run.
  virtual Status run(const StepBatch &batch, std::span<float> logits, std::span<Draw> drawn) = 0;
  /// Runs a step that writes nothing, of a size that steps of up to so many tokens and sequences
  /// may have, where the first of a size takes longer. False where no size is left; the limits are
  /// those of the first call.
  virtual bool rehearse(int64_t tokens, int64_t sequences) { return false; }
  /// Bytes that it holds beside the model's weights.
  virtual Result<uint64_t> memory() const = 0;
};

/// The steps of an engine with pages.
class PagedEngine final : public StepEngine {
public:
  /// The model outlives it. Errors are those of StepSession::create.
  static Result<std::unique_ptr<StepEngine>> create(const LanguageModel &model, unsigned threads,
                                                    int64_t pages);

  const PageFacts &facts() const override { return session.facts(); }
  bool draws() const override { return session.draws(); }
  Status run(const StepBatch &batch, std::span<float> logits, std::span<Draw> drawn) override {
    return session.run(batch, logits, drawn);
  }
  bool rehearse(int64_t tokens, int64_t sequences) override;
  Result<uint64_t> memory() const override { return session.memory(); }

private:
  explicit PagedEngine(StepSession theSession) : session(std::move(theSession)) {}

  StepSession session;
  std::optional<std::vector<StepSize>> unrehearsed; ///< the next one last
};

/// The steps of an engine without pages: a sequence for each request that runs, each a page of all
/// the engine's positions. Sequences are computed one after the other.
class SequenceEngine final : public StepEngine {
public:
  /// The model outlives it. Errors are those of Sequence::create.
  static Result<std::unique_ptr<StepEngine>> create(const LanguageModel &model, int64_t sequences,
                                                    unsigned threads);

  const PageFacts &facts() const override { return pageFacts; }
  Status run(const StepBatch &batch, std::span<float> logits, std::span<Draw> drawn) override;
  Result<uint64_t> memory() const override;

private:
  SequenceEngine() = default;

  PageFacts pageFacts;
  std::vector<Sequence> sequences; ///< by page
};

} // namespace tenon::generate
