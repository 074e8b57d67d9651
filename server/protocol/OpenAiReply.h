// Replies of OpenAI's interface, whole and as streams of events, made of the pieces of answers.
// Source: OpenAI's API reference; for streams, the HTML standard, "server-sent events".

#pragma once

#include "server/protocol/OpenAiRequest.h"
#include "support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// {"error": {"message", "type", "param", "code"}}; `field` may be empty.
std::string openAiError(const Status &status, std::string_view field = {});
/// The event that ends a stream by an error.
std::string openAiErrorEvent(const Status &status);

/// {"object": "list", "data": [...]} of language models by name.
std::string openAiModels(const std::vector<std::string> &names, int64_t created);
/// The entry of one of them.
std::string openAiModel(const std::string &name, int64_t created);

/// The reply to one request, which grows with its pieces.
class OpenAiReply {
public:
  /// `created` in seconds since 1970; `id` is of this reply.
  OpenAiReply(const OpenAiRequest &request, std::string id, int64_t created);

  void begin(uint64_t promptTokens) { usage.promptTokens += promptTokens; }
  /// Takes a piece of a choice, which begins with its first.
  void add(uint64_t choice, const TextPiece &piece);
  void finish();

  /// Of a stream: the events that were made since the last call.
  std::string takeEvents() { return std::exchange(events, {}); }
  /// Once it is finished.
  std::string whole() const;

private:
  struct Logprob {
    TextToken token;
    std::vector<TextToken> top;
    uint64_t offset = 0; ///< of the token in the choice's text, in characters
  };
  struct Choice {
    std::string text;
    std::vector<ToolDelta> calls; ///< whole, in the reply that is
    bool hasCalls = false;
    std::vector<Logprob> logprobs; ///< of the whole reply, or of the next event
    uint64_t characters = 0;       ///< of all tokens
    TextFinish finish = TextFinish::None;
    bool hasBegun = false;
  };
  struct Usage {
    uint64_t promptTokens = 0, answerTokens = 0, cachedTokens = 0;
  };

  void addCalls(uint64_t index, const std::vector<ToolDelta> &calls);
  std::string messageOf(const Choice &choice) const;
  std::string_view finishOf(const Choice &choice) const;
  /// "id", "object", "created", "model".
  void appendHead(std::string &out, std::string_view object) const;
  void appendLogprobs(std::string &out, const Choice &choice) const;
  void appendUsage(std::string &out) const;
  /// An event with one choice, whose `delta` is JSON.
  void appendEvent(uint64_t index, std::string_view delta, bool isLast);

  const bool isChat, streams, includesUsage, givesLogprobs;
  const std::string model, id;
  const int64_t created;
  std::vector<Choice> choices;
  Usage usage;
  std::string events;
};

} // namespace tenon::server
