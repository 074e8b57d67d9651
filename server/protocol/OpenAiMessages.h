// Messages, tools and formats of chat completions, as OpenAI's interface has them.

#pragma once

#include "server/ipc/TextMessages.h"
#include "support/Result.h"
#include "support/json/Json.h"

#include <string>
#include <string_view>

namespace tenon::server {

/// TN0806 for a field whose value is wrong, and for one that is not supported.
Status wrongField(std::string_view field, std::string_view what);
Status unsupportedField(std::string_view field);

/// A message; `where` is what errors call it. TN0806.
Status readChatMessage(const std::string &where, const Json &value, ChatMessage &message);
/// "response_format": text, json_object or json_schema. TN0806.
Status readResponseFormat(const Json &value, TextOptions &options);
/// "tools" and "tool_choice". TN0806.
Status readTools(const Json &value, ToolOptions &tools);
Status readToolChoice(const Json &value, ToolOptions &tools);
/// What one of them says against another. TN0806; `field` is what it is about.
Status checkTools(const ToolOptions &tools, std::string &field);

} // namespace tenon::server
