// The messages of a language model's text socket, a stream socket for each loaded model: the front
// asks for texts to be continued, the worker sends the pieces of the answers, those of a step in
// one message. What is read is not trusted.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::server {

struct ChatMessage {
  std::string role;
  std::string content;
  /// Of the assistant: a JSON array of {"id", "name", "arguments"}; or empty.
  std::string calls = {};
  std::string callId = {}; ///< of a tool's answer: which call it answers
};

/// What the text of an answer is held to.
enum class TextFormat : uint8_t { Any, Object, Schema };
/// Whether an answer calls tools: as it likes, not at all, at least one, or the one that is named.
enum class ToolChoice : uint8_t { Auto, None, Required, Named };

struct ToolOptions {
  std::string list; ///< a JSON array of tools as templates read them; empty for none
  ToolChoice choice = ToolChoice::Auto;
  std::string name;       ///< of the one that is named
  bool isParallel = true; ///< an answer may call several
};

/// How answers are drawn and when they end.
struct TextOptions {
  double temperature = 1, topP = 1, minP = 0, repetition = 1, frequency = 0, presence = 0;
  uint64_t topK = 0; ///< 0: all
  uint64_t seed = 0; ///< answer i has seed + i
  std::vector<std::pair<int32_t, double>> bias;
  uint64_t maxTokens = 0; ///< 0: as many as fit
  std::vector<std::string> stops;
  bool givesTokens = false; ///< pieces have their token's bytes
  uint64_t topTokens = 0;   ///< the most probable, with each token
  TextFormat format = TextFormat::Any;
  std::string schema; ///< of JSON, where the format is one
  ToolOptions tools;
};

/// A prompt and how many answers it has, whose ids are `id`, `id + 1` and so on.
struct TextAsk {
  uint64_t id = 0;
  uint64_t count = 1;
  /// What the model's chat template makes a prompt of, a text, or tokens.
  std::variant<std::vector<ChatMessage>, std::string, std::vector<int32_t>> prompt;
  TextOptions options;
  std::string salt;                 ///< prompts of one salt share what was computed of them
  int64_t priority = 0;             ///< a smaller one goes first
  uint64_t timeoutMicroseconds = 0; ///< from its arrival until its answers are whole; 0: any
};

/// The answer ends without more.
struct TextCancel {
  uint64_t id = 0;
};

using TextCommand = std::variant<TextAsk, TextCancel>;

/// The prompt of the answers of `id` is known, before any of their pieces.
struct TextBegun {
  uint64_t id = 0;
  uint64_t promptTokens = 0;
};

enum class TextFinish : uint8_t { None, End, Stop, Length };

struct TextToken {
  int32_t token = 0;
  double logprob = 0;
  std::string bytes; ///< where they were asked for; not always UTF-8
};

/// A part of a tool's call.
struct ToolDelta {
  uint64_t index = 0;   ///< of the call in its answer
  std::string id, name; ///< with the first part
  std::string arguments;
};

/// One more token of an answer.
struct TextPiece {
  uint64_t id = 0;
  std::string text; ///< that has become certain; it may be empty
  std::vector<ToolDelta> calls;
  TextToken token;
  std::vector<TextToken> top; ///< the most probable first
  TextFinish finish = TextFinish::None;
  uint64_t cachedTokens = 0; ///< with the first: of the prompt, that were not computed again
  uint64_t waited = 0;       ///< with the first: nanoseconds in the worker until the model began
};

/// An answer gave up its pages to another and is computed again.
struct TextPreempted {
  uint64_t id = 0;
  uint64_t winner = 0;     ///< the answer that needed pages, or to run
  uint64_t tokensLost = 0; ///< to be computed again, but for those in pages that are still kept
  uint64_t pagesShort = 0; ///< 0 where as many answers ran as may
};

/// The answer ends with an error.
struct TextFailed {
  uint64_t id = 0;
  Status why;
};

using TextEvent = std::variant<TextBegun, TextPiece, TextFailed, TextPreempted>;

/// What a model's service holds and has counted since it was loaded.
struct TextLoad {
  uint64_t running = 0, waiting = 0; ///< answers
  uint64_t pages = 0, pagesUsed = 0; ///< of its cache; 0 where it has none
  uint64_t prefixTokens = 0;         ///< of prompts, found in pages
  uint64_t preemptions = 0;          ///< answers that gave up their pages
  uint64_t recomputedTokens = 0;     ///< for it
  uint64_t draftTokens = 0;          ///< of answers, computed on a guess
  uint64_t acceptedTokens = 0;       ///< of those, that were right
};

/// What one step gave.
struct TextStep {
  std::vector<TextEvent> events;
  std::optional<TextLoad> load; ///< after a step of the service
};

/// Whole messages, with their length in front.
std::string encodeCommand(const TextCommand &command);
std::string encodeStep(const TextStep &step);
/// What stands behind the length. TN0902 for text that the functions above do not write.
Result<TextCommand> decodeCommand(std::string_view text);
Result<TextStep> decodeStep(std::string_view text);

/// Cuts the bytes of a socket into messages.
class TextFrames {
public:
  /// Longer ones are refused.
  explicit TextFrames(uint64_t maxBytes) : maxBytes(maxBytes) {}

  void append(std::string_view bytes) { received += bytes; }
  /// The next message without its length, valid until append is called; none where it has not come
  /// whole. TN0902.
  Result<std::optional<std::string_view>> next();

private:
  const uint64_t maxBytes;
  std::string received;
  size_t taken = 0;
};

} // namespace tenon::server
