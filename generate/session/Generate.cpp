// The token that ended an answer is not appended: a conversation goes on with its template's.
#include "generate/session/Generate.h"

#include "support/text/Text.h"

#include <algorithm>
#include <chrono>

namespace tenon::generate {
namespace {

Status refuseAnswer(std::string_view what) { return Status::error(ErrorId::BadArgument, what); }

} // namespace

std::string_view nameOf(Finish finish) {
  constexpr std::string_view kNames[] = {"end", "stop", "length", "cancelled"};
  return kNames[static_cast<size_t>(finish)];
}

Result<AnswerStream> AnswerStream::begin(const LanguageModel &model, Sequence &sequence,
                                         std::span<const int32_t> prompt,
                                         const GenerateOptions &options) {
  int64_t vocabulary = model.facts().vocabulary;
  TENON_TRY(checkSampling(options.sampling, vocabulary));
  if (prompt.empty()) {
    return refuseAnswer("the prompt has no tokens");
  }
  TENON_TRY(model.checkTokens(prompt));
  if (options.maxTokens < 1) {
    return refuseAnswer(
        strCat("max-tokens ", options.maxTokens, ": an answer has at least one token"));
  }
  if (options.topTokens < 0 || options.topTokens > vocabulary) {
    return refuseAnswer(strCat("the ", options.topTokens,
                               " most probable tokens: they are from 0 to the ", "vocabulary's ",
                               vocabulary));
  }
  TENON_TRY(model.checkRoom(prompt.size()));
  return AnswerStream(model, sequence, prompt, options);
}

AnswerStream::AnswerStream(const LanguageModel &theModel, Sequence &theSequence,
                           std::span<const int32_t> thePrompt, const GenerateOptions &theOptions)
    : model(&theModel), sequence(&theSequence), prompt(thePrompt.begin(), thePrompt.end()),
      maxTokens(theOptions.maxTokens), topTokens(theOptions.topTokens),
      text(theModel.tokenizer(), theOptions.stops), sampler(theOptions.sampling, thePrompt) {}

/// The logits of the next token.
Result<std::span<const float>> AnswerStream::advance() {
  if (drawn > 0) {
    return sequence->append(std::span(&last, 1));
  }
  size_t same = std::ranges::mismatch(sequence->tokens(), prompt).in2 - prompt.begin();
  sequence->cut(std::min(same, prompt.size() - 1));
  return sequence->append(std::span(prompt).subspan(sequence->tokens().size()));
}

Result<Piece> AnswerStream::next() {
  if (isOver) {
    return refuseAnswer("the answer has ended");
  }
  if (drawn > 0 && sequence->changes() != changes) {
    return Status::error(ErrorId::BadArgument, "another answer was begun on the same sequence",
                         "make a sequence for each answer that is read at the same time");
  }
  isOver = true; // unless all goes well
  TENON_ASSIGN(std::span<const float> logits, advance());
  changes = sequence->changes();
  Piece piece;
  TENON_ASSIGN(piece.draw, sampler.draw(logits, sequence->tokens().size()));
  last = piece.draw.token;
  ++drawn;
  piece.top = topTokens > 0 ? generate::topTokens(logits, topTokens) : std::vector<Draw>();
  const std::vector<int32_t> &ends = model->tokenizer().vocabulary().ends;
  bool isEnd = std::ranges::find(ends, last) != ends.end();
  piece.text = isEnd ? std::string() : text.add(last);
  int64_t length = static_cast<int64_t>(sequence->tokens().size());
  bool isLast = drawn >= maxTokens || length >= model->facts().positions;
  if (isEnd || text.isStopped() || isLast) {
    piece.text += text.finish();
    piece.finish = isEnd ? Finish::End : text.isStopped() ? Finish::Stop : Finish::Length;
  }
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
