// Implements the order of the reasons to end: the model's own, a stop string, the length.
#include "generate/session/AnswerWriter.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::generate {
namespace {

Status refuseOptions(std::string_view what) { return Status::error(ErrorId::BadArgument, what); }

} // namespace

std::string_view nameOf(Finish finish) {
  constexpr std::string_view kNames[] = {"end", "stop", "length", "cancelled"};
  return kNames[static_cast<size_t>(finish)];
}

Result<AnswerWriter> AnswerWriter::create(const Tokenizer &tokenizer, const ModelFacts &facts,
                                          std::span<const int32_t> prompt,
                                          const GenerateOptions &options) {
  TENON_TRY(checkSampling(options.sampling, facts.vocabulary));
  if (prompt.empty()) {
    return refuseOptions("the prompt has no tokens");
  }
  TENON_TRY(facts.checkTokens(prompt));
  if (options.maxTokens < 1) {
    return refuseOptions(
        strCat("max-tokens ", options.maxTokens, ": an answer has at least one token"));
  }
  if (options.topTokens < 0 || options.topTokens > facts.vocabulary) {
    return refuseOptions(strCat("the ", options.topTokens,
                                " most probable tokens: they are from 0 to the ", "vocabulary's ",
                                facts.vocabulary));
  }
  TENON_TRY(facts.checkRoom(prompt.size()));
  return AnswerWriter(tokenizer, facts, prompt, options);
}

AnswerWriter::AnswerWriter(const Tokenizer &theTokenizer, const ModelFacts &facts,
                           std::span<const int32_t> prompt, const GenerateOptions &options)
    : tokenizer(&theTokenizer), positions(facts.positions), maxTokens(options.maxTokens),
      topTokens(options.topTokens), text(theTokenizer, options.stops, options.shown),
      sampler(options.sampling, prompt) {
  if (options.format) {
    matcher.emplace(options.format);
  }
}

Result<Piece> AnswerWriter::write(std::span<const float> logits, int64_t length) {
  std::shared_ptr<const grammar::Mask> mask;
  if (matcher) {
    TENON_ASSIGN(mask, matcher->mask());
  }
  TENON_ASSIGN(Draw draw, sampler.draw(logits, static_cast<uint64_t>(length), mask.get()));
  TENON_ASSIGN(Piece piece, pieceOf(draw, length));
  piece.top = topTokens > 0 ? generate::topTokens(logits, topTokens) : std::vector<Draw>();
  return piece;
}

Result<Piece> AnswerWriter::write(Draw drawn, int64_t length) {
  TENON_ASSIGN(Draw draw, sampler.take(drawn, static_cast<uint64_t>(length)));
  return pieceOf(draw, length);
}

Result<Piece> AnswerWriter::pieceOf(Draw draw, int64_t length) {
  Piece piece;
  piece.draw = draw;
  ++drawn;
  const std::vector<int32_t> &ends = tokenizer->vocabulary().ends;
  bool isEnd = std::ranges::find(ends, piece.draw.token) != ends.end();
  if (matcher && !isEnd) {
    TENON_TRY(matcher->take(piece.draw.token));
  }
  bool isWhole = matcher && !isEnd && matcher->isOver();
  piece.text = isEnd ? std::string() : text.add(piece.draw.token);
  bool isLast = drawn >= maxTokens || length >= positions;
  bool isStopped = text.isStopped() || isWhole;
  if (isEnd || isStopped || isLast) {
    piece.text += text.finish();
    piece.finish = isEnd ? Finish::End : isStopped ? Finish::Stop : Finish::Length;
  }
  return piece;
}

} // namespace tenon::generate
