// The loop that continues a text.
#pragma once

#include "generate/sampling/Sampler.h"
#include "generate/session/LanguageModel.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t maxTokens = 512;
  std::vector<std::string> stops; ///< texts that end the answer and are no part of it
};

enum class Finish : uint8_t {
  End,       ///< the model ended its text
  Stop,      ///< a stop string came
  Length,    ///< maxTokens, or the end of the context
  Cancelled, ///< the listener said so
};
std::string_view nameOf(Finish finish);

struct Answer {
  std::string text;
  std::vector<Draw> draws; ///< also that of the token that ended it
  Finish finish = Finish::Length;
  double promptSeconds = 0; ///< until the first token was known
  double seconds = 0;       ///< of all tokens after the first
};

/// Told the text that has become certain, which may be none, and the draw behind it; false ends the
/// answer.
using Listener = std::function<bool(std::string_view text, const Draw &draw)>;

/// Makes the sequence the prompt and what the model goes on with. What the sequence has of the
/// prompt already is not computed again. Errors: those of checkSampling
/// and of Sequence::append.
Result<Answer> generate(const LanguageModel &model, Sequence &sequence,
                        std::span<const int32_t> prompt, const GenerateOptions &options,
                        const Listener &listener);

} // namespace tenon::generate
