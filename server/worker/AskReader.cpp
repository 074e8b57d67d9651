// What a request asks for is found before it is queued: what is wrong with it is said at once.

#include "server/worker/AskReader.h"

#include "generate/session/Chat.h"
#include "generate/tools/ToolGrammar.h"
#include "support/json/Json.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <random>
#include <utility>

namespace tenon::server {
namespace {

/// Whether answers may call tools.
bool usesTools(const TextAsk &ask) {
  return !ask.options.tools.list.empty() && ask.options.tools.choice != ToolChoice::None;
}

generate::Message messageOf(const ChatMessage &message) {
  generate::Message result{message.role, message.content, {}, message.callId};
  if (!message.calls.empty()) {
    for (const Json &call : parseJson(message.calls)) {
      result.calls.push_back({call["id"].get<std::string>(), call["name"].get<std::string>(),
                              dumpJson(call["arguments"])});
    }
  }
  return result;
}

std::vector<std::string> toolNames(const ToolOptions &tools) {
  std::vector<std::string> names;
  for (const Json &tool : parseJson(tools.list)) {
    names.push_back(tool["function"]["name"].get<std::string>());
  }
  return names;
}

} // namespace

Result<std::vector<int32_t>> AskReader::tokensOf(const TextAsk &ask) {
  if (const std::vector<int32_t> *tokens = std::get_if<std::vector<int32_t>>(&ask.prompt)) {
    return *tokens;
  }
  if (const std::string *text = std::get_if<std::string>(&ask.prompt)) {
    return model.tokenizer().encode(*text);
  }
  generate::ChatOptions options;
  options.tools = usesTools(ask) ? ask.options.tools.list : std::string();
  bool showsCalls = false;
  std::vector<generate::Message> messages;
  for (const ChatMessage &message : std::get<std::vector<ChatMessage>>(ask.prompt)) {
    messages.push_back(messageOf(message));
    showsCalls = showsCalls || !message.calls.empty() || !message.callId.empty();
  }
  if (showsCalls || !options.tools.empty()) {
    TENON_ASSIGN(generate::ToolFormat format, toolFormat());
    options.givesArgumentsAsText = format.givesArgumentsAsText;
    if (showsCalls && !format.showsCalls) {
      return Status::error(ErrorId::ToolsUnsupported,
                           "the model's chat template shows no calls of tools",
                           "leave out messages with calls and their results");
    }
  }
  TENON_ASSIGN(
      generate::jinja::Text text,
      generate::renderChat(model.facts().chatTemplate, messages, model.tokenizer(), options));
  return generate::encodeChat(text, model.tokenizer());
}

Result<generate::ToolFormat> AskReader::toolFormat() {
  if (!foundTools) {
    foundTools = generate::findToolFormat(model.facts().chatTemplate, model.tokenizer());
  }
  return *foundTools;
}

Result<std::shared_ptr<generate::grammar::Automaton>> AskReader::formatOf(const TextAsk &ask) {
  if (usesTools(ask)) {
    return toolsFormatOf(ask);
  }
  switch (ask.options.format) {
  case TextFormat::Object:
    return formats.object();
  case TextFormat::Schema:
    return formats.schema(ask.options.schema);
  case TextFormat::Any:
    break;
  }
  return std::shared_ptr<generate::grammar::Automaton>();
}

Result<std::shared_ptr<generate::grammar::Automaton>> AskReader::toolsFormatOf(const TextAsk &ask) {
  const ToolOptions &tools = ask.options.tools;
  generate::ToolRules rules;
  rules.tools = parseJson(tools.list);
  rules.mustCall = tools.choice != ToolChoice::Auto;
  rules.name = tools.name;
  rules.isParallel = tools.isParallel;
  if (ask.options.format == TextFormat::Object) {
    rules.content = Json{{"type", "object"}};
  } else if (ask.options.format == TextFormat::Schema) {
    rules.content = parseJson(ask.options.schema);
  }
  if (!generate::needGrammar(rules)) {
    return std::shared_ptr<generate::grammar::Automaton>();
  }
  TENON_ASSIGN(generate::ToolFormat format, toolFormat());
  std::string name = strCat("tools ", static_cast<int>(tools.choice),
                            tools.isParallel ? " several " : " one ", tools.name, " ", tools.list,
                            " ", static_cast<int>(ask.options.format), ask.options.schema);
  return formats.named(name,
                       [&] { return generate::toolGrammar(rules, format, model.tokenizer()); });
}

Result<std::optional<generate::ToolFormat>> AskReader::toolsOf(const TextAsk &ask) {
  std::optional<generate::ToolFormat> format;
  if (usesTools(ask)) {
    TENON_ASSIGN(format, toolFormat());
  }
  return std::move(format);
}

std::unique_ptr<generate::ToolParser>
AskReader::parserOf(const TextAsk &ask, const generate::ToolFormat &format) const {
  std::random_device device;
  return std::make_unique<generate::ToolParser>(format, toolNames(ask.options.tools),
                                                ask.options.tools.isParallel,
                                                (uint64_t(device()) << 32) | device());
}

} // namespace tenon::server
