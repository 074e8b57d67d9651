// A conversation as the prompt that a model's template makes of it.
#pragma once

#include "generate/template/Value.h"
#include "generate/tokenizer/Tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate {

struct ToolCall {
  std::string id, name;
  std::string arguments; ///< a JSON object
};

struct Message {
  std::string role; ///< "system", "user", "assistant", "tool"
  std::string content;
  std::vector<ToolCall> calls = {}; ///< of the assistant
  std::string callId = {};          ///< of a tool: the call that it answers
};

/// What a template is given beside the messages.
struct ChatOptions {
  std::string tools = {}; ///< a JSON array; empty for none
  /// Arguments of calls go to the template as text of JSON, not as what that says.
  bool givesArgumentsAsText = false;
  bool addsPrompt = true; ///< the assistant's turn begins
};

/// The text with who wrote each byte. TN0250 and TN0251 of the template; TN0618 where it is empty.
Result<jinja::Text> renderChat(std::string_view chatTemplate, const std::vector<Message> &messages,
                               const Tokenizer &tokenizer, const ChatOptions &options = {});

/// The tokens of a rendered conversation. Begin-of-text is there once, whether the template or the
/// vocabulary puts it there.
Result<std::vector<int32_t>> encodeChat(const jinja::Text &text, const Tokenizer &tokenizer);

} // namespace tenon::generate
