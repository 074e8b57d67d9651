// The token that ended an answer is not appended: a conversation goes on with its template's.
#include "generate/session/Generate.h"

#include "support/text/Text.h"

#include <algorithm>
#include <chrono>

namespace tenon::generate {
namespace {

Status refuseAnswer(std::string_view what) { return Status::error(ErrorId::BadArgument, what); }

} // namespace

Result<AnswerStream> AnswerStream::begin(const LanguageModel &model, Sequence &sequence,
                                         std::span<const int32_t> prompt,
                                         const GenerateOptions &options) {
  TENON_ASSIGN(AnswerWriter writer,
               AnswerWriter::create(model.tokenizer(), sequence.facts(), prompt, options));
  return AnswerStream(sequence, prompt, std::move(writer));
}

AnswerStream::AnswerStream(Sequence &theSequence, std::span<const int32_t> thePrompt,
                           AnswerWriter theWriter)
    : sequence(&theSequence), prompt(thePrompt.begin(), thePrompt.end()),
      writer(std::move(theWriter)) {}

/// What is to be appended before the next token.
std::span<const int32_t> AnswerStream::unread() {
  if (last) {
    return std::span(&*last, 1);
  }
  size_t same = std::ranges::mismatch(sequence->tokens(), prompt).in2 - prompt.begin();
  sequence->cut(std::min(same, prompt.size() - 1));
  reused = static_cast<int64_t>(sequence->tokens().size());
  return std::span(prompt).subspan(reused);
}

Result<Piece> AnswerStream::advance() {
  std::span<const int32_t> tokens = unread();
  int64_t length = static_cast<int64_t>(sequence->tokens().size() + tokens.size());
  if (sequence->draws() && !writer.readsLogits()) {
    TENON_ASSIGN(Draw draw, sequence->appendAndDraw(tokens, writer.parameters(length)));
    changes = sequence->changes();
    return writer.write(draw, length);
  }
  TENON_ASSIGN(std::span<const float> logits, sequence->append(tokens));
  changes = sequence->changes();
  return writer.write(logits, length);
}

Result<Piece> AnswerStream::next() {
  if (isOver) {
    return refuseAnswer("the answer has ended");
  }
  if (last && sequence->changes() != changes) {
    return Status::error(ErrorId::BadArgument, "another answer was begun on the same sequence",
                         "make a sequence for each answer that is read at the same time");
  }
  isOver = true; // unless all goes well
  TENON_ASSIGN(Piece piece, advance());
  piece.reused = last ? 0 : reused;
  last = piece.draw.token;
  isOver = piece.finish.has_value();
  return piece;
}

Result<Answer> generate(const LanguageModel &model, Sequence &sequence,
                        std::span<const int32_t> prompt, const GenerateOptions &options,
                        const Listener &listener) {
  using Clock = std::chrono::steady_clock;
  TENON_ASSIGN(AnswerStream stream, AnswerStream::begin(model, sequence, prompt, options));
  Answer answer;
  Clock::time_point began = Clock::now(), first = began;
  for (std::optional<Finish> finish; !finish;) {
    TENON_ASSIGN(Piece piece, stream.next());
    first = answer.draws.empty() ? Clock::now() : first;
    answer.text += piece.text;
    answer.draws.push_back(piece.draw);
    bool goesOn = listener(piece);
    finish = piece.finish || goesOn ? piece.finish : Finish::Cancelled;
    answer.finish = finish.value_or(Finish::Length);
  }
  answer.promptSeconds = std::chrono::duration<double>(first - began).count();
  answer.seconds = std::chrono::duration<double>(Clock::now() - first).count();
  return answer;
}

} // namespace tenon::generate
