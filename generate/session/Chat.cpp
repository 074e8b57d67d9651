// Relies on every byte of a rendered template knowing who wrote it.
#include "generate/session/Chat.h"

#include "generate/template/Interpreter.h"
#include "generate/template/Parser.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

namespace tenon::generate {
namespace {

std::string textOf(const Tokenizer &tokenizer, int32_t token) {
  return token < 0 ? std::string() : std::string(tokenizer.vocabulary().tokens[token]);
}

jinja::Value ofTemplate(std::string_view text) {
  return jinja::Value(jinja::Text::ofTemplate(text));
}

jinja::Value ofData(std::string_view text) { return jinja::Value(jinja::Text::ofData(text)); }

/// JSON of whoever asks, whose texts write no control token.
jinja::Value ofData(const Json &json) {
  switch (json.type()) {
  case Json::value_t::boolean:
    return jinja::Value(json.get<bool>());
  case Json::value_t::number_integer:
  case Json::value_t::number_unsigned:
    return json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX
               ? jinja::Value(json.get<double>())
               : jinja::Value(json.get<int64_t>());
  case Json::value_t::number_float:
    return jinja::Value(json.get<double>());
  case Json::value_t::string:
    return ofData(std::string_view(json.get_ref<const std::string &>()));
  case Json::value_t::array: {
    jinja::List list;
    for (const Json &each : json) {
      list.push_back(ofData(each));
    }
    return jinja::Value(std::move(list));
  }
  case Json::value_t::object: {
    jinja::Dict dict;
    for (const auto &[name, each] : json.items()) {
      dict.emplace_back(ofData(std::string_view(name)), ofData(each));
    }
    return jinja::Value(std::move(dict));
  }
  default:
    return {};
  }
}

jinja::Value valueOf(const ToolCall &call, const ChatOptions &options) {
  jinja::Dict function = {{ofTemplate("name"), ofData(std::string_view(call.name))},
                          {ofTemplate("arguments"), options.givesArgumentsAsText
                                                        ? ofData(std::string_view(call.arguments))
                                                        : ofData(parseJson(call.arguments))}};
  return jinja::Value(jinja::Dict{{ofTemplate("id"), ofData(std::string_view(call.id))},
                                  {ofTemplate("type"), ofTemplate("function")},
                                  {ofTemplate("function"), jinja::Value(std::move(function))}});
}

jinja::Value valueOf(const std::vector<Message> &messages, size_t index,
                     const ChatOptions &options) {
  const Message &message = messages[index];
  // A role is one of a few words that templates put beside their control tokens.
  jinja::Dict dict = {{ofTemplate("role"), ofTemplate(message.role)},
                      {ofTemplate("content"), ofData(std::string_view(message.content))}};
  if (!message.calls.empty()) {
    jinja::List calls;
    for (const ToolCall &call : message.calls) {
      calls.push_back(valueOf(call, options));
    }
    dict.emplace_back(ofTemplate("tool_calls"), jinja::Value(std::move(calls)));
  }
  if (!message.callId.empty()) {
    dict.emplace_back(ofTemplate("tool_call_id"), ofData(std::string_view(message.callId)));
    for (size_t i = 0; i < index; ++i) {
      for (const ToolCall &call : messages[i].calls) {
        if (call.id == message.callId) { // the name of the function that it answers for
          dict.emplace_back(ofTemplate("name"), ofData(std::string_view(call.name)));
          return jinja::Value(std::move(dict));
        }
      }
    }
  }
  return jinja::Value(std::move(dict));
}

} // namespace

Result<jinja::Text> renderChat(std::string_view chatTemplate, const std::vector<Message> &messages,
                               const Tokenizer &tokenizer, const ChatOptions &options) {
  if (chatTemplate.empty()) {
    return Status::error(ErrorId::ChatTemplateMissing, "the model has no chat template",
                         "leave out --chat and --system, or give a template with --template FILE");
  }
  TENON_ASSIGN(jinja::Body program, jinja::parseTemplate(chatTemplate));
  jinja::List list;
  for (size_t i = 0; i < messages.size(); ++i) {
    list.push_back(valueOf(messages, i, options));
  }
  const Vocabulary &vocabulary = tokenizer.vocabulary();
  jinja::Dict context = {{ofTemplate("messages"), jinja::Value(std::move(list))},
                         {ofTemplate("add_generation_prompt"), jinja::Value(options.addsPrompt)},
                         {ofTemplate("bos_token"), ofTemplate(textOf(tokenizer, vocabulary.bos))},
                         {ofTemplate("eos_token"), ofTemplate(textOf(tokenizer, vocabulary.eos))}};
  if (!options.tools.empty()) {
    context.emplace_back(ofTemplate("tools"), ofData(parseJson(options.tools)));
  }
  jinja::Interpreter interpreter(program, {});
  return interpreter.render(std::move(context));
}

Result<std::vector<int32_t>> encodeChat(const jinja::Text &text, const Tokenizer &tokenizer) {
  std::vector<TextPart> parts;
  for (size_t begin = 0, end = 0; begin < text.bytes.size(); begin = end) {
    bool isOfTemplate = text.isOfTemplate[begin];
    while (end < text.bytes.size() && text.isOfTemplate[end] == isOfTemplate) {
      ++end;
    }
    parts.push_back({std::string_view(text.bytes).substr(begin, end - begin), isOfTemplate});
  }
  TENON_ASSIGN(std::vector<int32_t> tokens, tokenizer.encode(parts));
  int32_t bos = tokenizer.vocabulary().bos;
  if (tokenizer.vocabulary().addsBos && tokens.size() > 1 && tokens[0] == bos && tokens[1] == bos) {
    tokens.erase(tokens.begin());
  }
  return tokens;
}

} // namespace tenon::generate
