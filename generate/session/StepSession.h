// A session of an engine with pages, and what one step of it reads: the new tokens of several
// sequences, one after the other, and where in the pages each stands.
#pragma once

#include "generate/session/LanguageModel.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::generate {

/// T new tokens of S sequences, and the L of them whose logits are asked for; each at least one.
/// Positions before a sequence's new tokens are in its pages already. Every sequence has at least
/// one new token; tokens behind the last sequence's are padding, whose logits nobody should ask
/// for.
struct StepBatch {
  std::vector<int64_t> tokens;    ///< [T]
  std::vector<int64_t> positions; ///< [T], of each token in its sequence
  std::vector<int64_t> slots;     ///< [T], number of the page * page + offset; -1 writes nothing
  std::vector<int64_t> starts;    ///< [S + 1], from 0 to T: a sequence's tokens are [s] to [s + 1]
  std::vector<int64_t> lengths;   ///< [S], positions of a sequence with its new tokens
  /// [S, table], the pages of each sequence in their order; behind its last page any that exist.
  std::vector<int64_t> pages;
  std::vector<int64_t> rows; ///< [L], of the tokens
  /// [L], or empty where nothing is drawn: what the draw behind each row depends on.
  std::vector<DrawParameters> draws = {};
  /// [F], numbers of `rows` whose logits are fetched, of an engine with draws; empty: all.
  std::vector<int64_t> fetched = {};
};

struct StepSize {
  int64_t tokens = 0, sequences = 0;
};

/// One thread at a time; the model outlives it.
class StepSession {
public:
  /// TN0615 for an engine without pages, TN0105 for more pages than it may have; `threads` 0 stands
  /// for all usable CPUs, `pages` 0 for those of one sequence of all positions.
  static Result<StepSession> create(const LanguageModel &model, unsigned threads,
                                    int64_t pages = 0);

  /// Of the model, with the pages of this session.
  const PageFacts &facts() const { return pageFacts; }
  /// Whether the engine draws.
  bool draws() const { return model->draws(); }
  /// Writes keys and values of the tokens into their pages, the logits of `rows` or of those that
  /// are fetched to `logits`, [L or F, vocabulary], and what is drawn behind them to `drawn`, [L].
  /// Of an engine that draws either may be empty, where it is not wanted; of others nothing is
  /// drawn. A token is -1 where its row's logits are not finite. Errors: TN0105 where the vectors'
  /// sizes or numbers contradict each other or the engine's sizes, before anything runs; otherwise
  /// as tenon_session_run.
  Status run(const StepBatch &batch, std::span<float> logits, std::span<Draw> drawn = {});
  /// Sizes of steps whose first run takes longer than later ones, of up to so many tokens and
  /// sequences: those of a GPU, which keeps a graph for each.
  std::vector<StepSize> sizes(int64_t tokens, int64_t sequences) const;
  /// Has a step of such a size run, which writes nothing, until later ones are as fast as they get.
  Status rehearse(const StepSize &size);
  /// Bytes that the session holds.
  Result<uint64_t> memory() const;

private:
  StepSession() = default;
  Status check(const StepBatch &batch, size_t logits, size_t drawn) const;
  Status runChecked(const StepBatch &batch, std::span<float> logits, std::span<Draw> drawn);
  Status runPadded(const StepBatch &batch, std::span<float> logits, std::span<Draw> drawn);

  const LanguageModel *model = nullptr;
  PageFacts pageFacts;
  capi::SessionHandle session;
};

} // namespace tenon::generate
