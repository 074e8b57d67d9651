// What continues a text: token by token for who asks for them, and the loop that asks.
#pragma once

#include "generate/session/AnswerWriter.h"
#include "generate/session/LanguageModel.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::generate {

/// An answer whose tokens are computed when they are asked for. Who leaves it early leaves a
/// sequence that another answer can begin on. One thread at a time; model and sequence outlive it.
class AnswerStream {
public:
  /// Computes nothing yet. Errors are those of AnswerWriter::create.
  static Result<AnswerStream> begin(const LanguageModel &model, Sequence &sequence,
                                    std::span<const int32_t> prompt,
                                    const GenerateOptions &options);

  /// The first call makes the sequence the prompt; what it has of it already is not computed again.
  /// TN0105 behind the last piece, behind an error, and where something else used the sequence
  /// since the last piece. Otherwise errors are those of Sequence::append and AnswerWriter::write.
  Result<Piece> next();

private:
  AnswerStream(Sequence &theSequence, std::span<const int32_t> thePrompt, AnswerWriter theWriter);
  std::span<const int32_t> unread();
  Result<Piece> advance();

  Sequence *sequence;
  std::vector<int32_t> prompt;
  AnswerWriter writer;
  std::optional<int32_t> last; ///< the token that was drawn last
  int64_t reused = 0;          ///< tokens of the prompt that the sequence had
  uint64_t changes = 0;        ///< of the sequence, after the last piece
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
