// An engine that holds a language model, and the sequences that it continues.
#pragma once

#include "generate/sampling/Sampler.h"
#include "generate/tokenizer/Tokenizer.h"
#include "runtime/capi/Handles.h"
#include "support/Result.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::generate {

/// What the model's file says beside its numbers.
struct ModelFacts {
  std::string family;       ///< "llama"
  std::string chatTemplate; ///< empty for none
  int64_t context = 0;      ///< positions that the model was trained for
  int64_t positions = 0;    ///< positions that a sequence may have
  int64_t compiled = 0;     ///< the same, of the engine
  int64_t vocabulary = 0;
  int64_t layers = 0;

  /// TN0616 where a sequence cannot have so many tokens.
  Status checkRoom(size_t tokens) const;
  /// TN0105 for a token that is not of the vocabulary.
  Status checkTokens(std::span<const int32_t> tokens) const;
};

/// Sizes of an engine with pages. A sequence's position p lies in its page number p / page, at
/// p % page.
struct PageFacts {
  int64_t page = 0;       ///< positions of a page
  int64_t pages = 0;      ///< pages of a session, at most
  int64_t table = 0;      ///< pages of one sequence, at most: the M of a step
  int64_t tokens = 0;     ///< tokens of a step, at most
  int64_t sequences = 0;  ///< sequences of a step, at most
  int64_t rows = 0;       ///< tokens of a step whose logits are asked for, at most
  int64_t vocabulary = 0; ///< logits of a row

  /// Pages of a sequence of so many positions; at most those that it may have.
  int64_t pagesFor(int64_t positions) const {
    return std::min({pages, table, (positions + page - 1) / page});
  }
};

/// Immutable; any number of sequences on any threads may share one. It outlives them.
class LanguageModel {
public:
  /// TN0615 for an engine without one; otherwise as tenon_engine_open.
  static Result<std::unique_ptr<LanguageModel>> open(const std::string &path,
                                                     const tenon_engine_options &options);
  /// Of an engine that is open. TN0615.
  static Result<std::unique_ptr<LanguageModel>> of(capi::EngineHandle engine);

  const ModelFacts &facts() const { return modelFacts; }
  const Tokenizer &tokenizer() const { return *text; }
  const tenon_engine *engine() const { return handle.get(); }
  /// Tokens that one run takes at most.
  int64_t mostTokens() const { return most; }
  /// Null for an engine of one sequence without pages.
  const PageFacts *pages() const { return paged ? &*paged : nullptr; }
  /// Whether the engine has inputs and outputs of draws, as those with pages for GPUs have; and
  /// whether it is to draw: on a CPU the sampler is faster.
  bool hasDrawPorts() const { return isDrawing; }
  bool draws() const;

  /// A session whose runs have so many threads; 0 stands for all usable CPUs. Of an engine with
  /// pages, it has `count`; TN0105 for more than it may have.
  Result<capi::SessionHandle> makeSession(unsigned threads, int64_t count) const;

private:
  LanguageModel() = default;
  Status readPorts();

  capi::EngineHandle handle;
  ModelFacts modelFacts;
  std::unique_ptr<Tokenizer> text;
  int64_t most = 1;
  std::optional<PageFacts> paged;
  bool isDrawing = false;
};

/// Tokens with their keys and values in a session of the engine: of one with pages in its first
/// ones. One thread at a time.
class Sequence {
public:
  /// `threads` 0 stands for all usable CPUs, `positions` 0 for all of the engine. An engine with
  /// pages has memory for `positions` alone; without, for all in any case.
  static Result<Sequence> create(const LanguageModel &model, unsigned threads,
                                 int64_t positions = 0);

  /// Whether the engine draws.
  bool draws() const { return model->draws(); }
  /// Appends tokens, at least one, and gives the logits of the last, [vocabulary], which stay until
  /// the next call. TN0616 where they do not fit.
  Result<std::span<const float>> append(std::span<const int32_t> tokens);
  /// The same with a draw of the engine's behind the last token, of a model that draws. Its token
  /// is -1 where the logits are not finite.
  Result<Draw> appendAndDraw(std::span<const int32_t> tokens, const DrawParameters &parameters);
  /// The same with the logits of all, token by token; `take` is given the token's position.
  Status appendAll(std::span<const int32_t> tokens,
                   const std::function<Status(int64_t, std::span<const float>)> &take);
  /// What was appended.
  std::span<const int32_t> tokens() const { return kept; }
  /// The model's, with the positions that it may have.
  const ModelFacts &facts() const { return ownFacts; }
  /// Forgets all but the first `count` tokens.
  void cut(size_t count);
  /// How often tokens were appended or cut off: who goes on with a sequence sees by it whether
  /// something else did meanwhile.
  uint64_t changes() const { return changeCount; }
  /// Bytes that the session holds.
  Result<uint64_t> memory() const;

private:
  Sequence() = default;
  /// One run over tokens that fit into it; logits of the last `rows`.
  Status run(std::span<const int32_t> tokens, int64_t rows);
  /// The same without logits.
  Status runDrawing(std::span<const int32_t> tokens, const DrawParameters &parameters, Draw &draw);
  void begin(std::span<const int32_t> tokens, int64_t rows);
  void keep(std::span<const int32_t> tokens);
  Status runOne(int64_t count, int64_t rows);
  Status runPaged(int64_t count, std::span<float> ownLogits,
                  std::span<const DrawParameters> parameters, std::span<Draw> draws);
  std::span<const float> row(int64_t index) const {
    return std::span(logits).subspan(index * model->facts().vocabulary, model->facts().vocabulary);
  }

  const LanguageModel *model = nullptr;
  ModelFacts ownFacts;
  capi::SessionHandle session;
  std::vector<float> logits;
  std::vector<int32_t> kept;
  uint64_t changeCount = 0;
  std::vector<int64_t> ids, rowNumbers, context; ///< inputs of a run without pages
  std::vector<int64_t> places, pages;            ///< those of one with pages
};

} // namespace tenon::generate
