// Turns logits into the pieces of an answer: draws, text, and why it ends. Both who reads one
// answer token by token and who serves many rely on it.
#pragma once

#include "generate/grammar/Automaton.h"
#include "generate/sampling/Sampler.h"
#include "generate/session/LanguageModel.h"
#include "generate/text/TextStream.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t maxTokens = 512;
  std::vector<std::string> stops; ///< texts that end the answer and are no part of it
  int64_t topTokens = 0;          ///< the most probable tokens, listed with each draw
  /// What the answer's text is held to; null for any text. Its masks need the logits on the host.
  std::shared_ptr<grammar::Automaton> format = {};
  std::vector<int32_t> shown = {}; ///< control tokens that the text has
};

enum class Finish : uint8_t {
  End,       ///< the model ended its text
  Stop,      ///< a stop string came, or all that the answer's format takes
  Length,    ///< maxTokens, or the end of the context
  Cancelled, ///< the listener said so
};
std::string_view nameOf(Finish finish);

/// What one more token gives.
struct Piece {
  std::string text; ///< what has become certain, which may be nothing
  Draw draw;
  std::vector<Draw> top;        ///< as many as topTokens asked for, the most probable first
  std::optional<Finish> finish; ///< with the last piece
  /// With the first piece: tokens of the prompt whose keys and values were there already.
  int64_t reused = 0;
  double waited = 0; ///< with the first piece of a service: seconds until the request ran
};

/// One answer's. It depends on the logits that it is given and on nothing else.
class AnswerWriter {
public:
  /// The tokenizer outlives it. Errors: those of checkSampling; TN0105 for a prompt without tokens,
  /// with tokens beyond the vocabulary, or for other options out of range; TN0616 for a prompt that
  /// does not fit.
  static Result<AnswerWriter> create(const Tokenizer &tokenizer, const ModelFacts &facts,
                                     std::span<const int32_t> prompt,
                                     const GenerateOptions &options);

  /// The piece that logits, [vocabulary], give behind `length` tokens. Not behind the last piece.
  /// Errors are those of Sampler::draw and of Automaton::mask.
  Result<Piece> write(std::span<const float> logits, int64_t length);
  /// The token that another model's logits, [vocabulary], would give.
  Result<int32_t> guess(std::span<const float> logits, int64_t length) const {
    return sampler.choose(logits, static_cast<uint64_t>(length));
  }
  /// Whether it reads logits, and an engine's own draw is not enough.
  bool readsLogits() const { return topTokens > 0 || matcher || sampler.changesLogits(); }
  /// What an engine needs to draw behind `length` tokens, and the piece that this draw gives.
  DrawParameters parameters(int64_t length) const {
    return sampler.parameters(static_cast<uint64_t>(length));
  }
  Result<Piece> write(Draw drawn, int64_t length);

private:
  AnswerWriter(const Tokenizer &theTokenizer, const ModelFacts &facts,
               std::span<const int32_t> prompt, const GenerateOptions &options);
  Result<Piece> pieceOf(Draw draw, int64_t length);

  const Tokenizer *tokenizer;
  int64_t positions, maxTokens, topTokens;
  TextStream text;
  Sampler sampler;
  std::optional<grammar::Matcher> matcher;
  int64_t drawn = 0;
};

} // namespace tenon::generate
