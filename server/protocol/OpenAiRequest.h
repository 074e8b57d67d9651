// Requests of OpenAI's interface: chat completions and completions. Fields that change an answer
// are done or refused by their name; those that change none are accepted. Source: OpenAI's API
// reference, /v1/chat/completions and /v1/completions.

#pragma once

#include "server/ipc/TextMessages.h"
#include "server/protocol/TraceContext.h"
#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct OpenAiRequest {
  bool isChat = false;
  std::string model;
  /// A request for each prompt, whose ids are not set. Answer `j` of prompt `i` is choice
  /// i * answers + j.
  std::vector<TextAsk> asks;
  uint64_t answers = 1; ///< of each prompt: "n"
  bool streams = false;
  bool includesUsage = false; ///< in a stream
  bool givesLogprobs = false;
  uint64_t topLogprobs = 0; ///< listed with each token
  TraceContext trace;       ///< that the caller told beside the body
};

/// Choices of one request, at most.
inline constexpr uint64_t kMaxChoices = 128;

/// What a body is not told by itself.
struct OpenAiRights {
  uint64_t chance = 0;      ///< the seed of a request without one
  bool mayBeUrgent = false; ///< it may go before others, by a priority below 0
};

/// Reads a body. TN0806; `field` is what the error is about, where it is about one.
Result<OpenAiRequest> parseOpenAi(bool isChat, std::string_view body, const OpenAiRights &rights,
                                  std::string &field);

} // namespace tenon::server
