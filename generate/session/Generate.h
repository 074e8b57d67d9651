// What continues a text: token by token for who asks for them, and the loop that asks.
#pragma once

#include "generate/sampling/Sampler.h"
#include "generate/session/LanguageModel.h"
#include "generate/text/TextStream.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t maxTokens = 512;
  std::vector<std::string> stops; ///< texts that end the answer and are no part of it
  int64_t topTokens = 0;          ///< the most probable tokens, listed with each draw
};

enum class Finish : uint8_t {
  End,       ///< the model ended its text
  Stop,      ///< a stop string came
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
};

/// An answer whose tokens are computed when they are asked for. Who leaves it early leaves a
/// sequence that another answer can begin on. One thread at a time; model and sequence outlive it.
class AnswerStream {
public:
  /// Computes nothing yet. Errors: those of checkSampling; TN0105 for a prompt without tokens, with
  /// tokens beyond the vocabulary, or for other options out of range; TN0616 for a prompt that does
  /// not fit.
  static Result<AnswerStream> begin(const LanguageModel &model, Sequence &sequence,
                                    std::span<const int32_t> prompt,
                                    const GenerateOptions &options);

  /// The first call makes the sequence the prompt; what it has of it already is not computed again.
  /// TN0105 behind the last piece, behind an error, and where something else used the sequence
  /// since the last piece. Otherwise errors are those of Sequence::append and Sampler::draw.
  Result<Piece> next();

private:
  AnswerStream(const LanguageModel &theModel, Sequence &theSequence,
               std::span<const int32_t> thePrompt, const GenerateOptions &theOptions);
  Result<std::span<const float>> advance();

  const LanguageModel *model;
  Sequence *sequence;
  std::vector<int32_t> prompt;
  int64_t maxTokens, topTokens;
  TextStream text;
  Sampler sampler;
  int64_t drawn = 0;
  int32_t last = 0;     ///< the token that was drawn last
  uint64_t changes = 0; ///< of the sequence, after the last piece
  bool isOver = false;
};

struct Answer {
  std::string text;
  std::vector<Draw> draws; ///< also that of the token that ended it
  Finish finish = Finish::Length;
  double promptSeconds = 0; ///< until the first token was known
  double seconds = 0;       ///< of all tokens after the first
};

/// False ends the answer.
using Listener = std::function<bool(const Piece &piece)>;

/// Asks an AnswerStream for all of its pieces. Errors are its own.
Result<Answer> generate(const LanguageModel &model, Sequence &sequence,
                        std::span<const int32_t> prompt, const GenerateOptions &options,
                        const Listener &listener);

} // namespace tenon::generate
