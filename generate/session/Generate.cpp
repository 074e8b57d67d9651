// The token that ended an answer is not appended: a conversation goes on with its template's.
#include "generate/session/Generate.h"

#include "generate/text/TextStream.h"
#include "support/text/Text.h"

#include <algorithm>
#include <chrono>

namespace tenon::generate {

std::string_view nameOf(Finish finish) {
  constexpr std::string_view kNames[] = {"end", "stop", "length", "cancelled"};
  return kNames[static_cast<size_t>(finish)];
}

Result<Answer> generate(const LanguageModel &model, Sequence &sequence,
                        std::span<const int32_t> prompt, const GenerateOptions &options,
                        const Listener &listener) {
  using Clock = std::chrono::steady_clock;
  TENON_TRY(checkSampling(options.sampling, model.facts().vocabulary));
  if (prompt.empty() || options.maxTokens < 1) {
    return Status::error(ErrorId::BadArgument, prompt.empty()
                                                   ? "the prompt has no tokens"
                                                   : strCat("max-tokens ", options.maxTokens,
                                                            ": an answer has at least one token"));
  }
  const std::vector<int32_t> &ends = model.tokenizer().vocabulary().ends;
  TextStream stream(model.tokenizer(), options.stops);
  Sampler sampler(options.sampling, prompt);
  Answer answer;
  Clock::time_point began = Clock::now(), first = began;
  size_t same = std::ranges::mismatch(sequence.tokens(), prompt).in2 - prompt.begin();
  sequence.cut(std::min(same, prompt.size() - 1));
  TENON_ASSIGN(std::span<const float> logits,
               sequence.append(prompt.subspan(sequence.tokens().size())));
  for (int64_t i = 0;; ++i) {
    TENON_ASSIGN(Draw draw, sampler.draw(logits, sequence.tokens().size()));
    first = i == 0 ? Clock::now() : first;
    answer.draws.push_back(draw);
    bool isEnd = std::ranges::find(ends, draw.token) != ends.end();
    std::string text = isEnd ? std::string() : stream.add(draw.token);
    answer.text += text;
    bool goesOn = listener(text, draw);
    int64_t length = static_cast<int64_t>(sequence.tokens().size());
    bool isLast = i + 1 >= options.maxTokens || length >= model.facts().positions;
    if (isEnd || stream.isStopped() || !goesOn || isLast) {
      answer.finish = isEnd                ? Finish::End
                      : stream.isStopped() ? Finish::Stop
                      : !goesOn            ? Finish::Cancelled
                                           : Finish::Length;
      break;
    }
    TENON_ASSIGN(logits, sequence.append(std::span(&draw.token, 1)));
  }
  std::string rest = stream.finish();
  answer.text += rest;
  if (!rest.empty()) {
    listener(rest, answer.draws.back());
  }
  answer.promptSeconds = std::chrono::duration<double>(first - began).count();
  answer.seconds = std::chrono::duration<double>(Clock::now() - first).count();
  return answer;
}

} // namespace tenon::generate
