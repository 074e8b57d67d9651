// Relies on every byte of a rendered template knowing who wrote it.
#include "generate/session/Chat.h"

#include "generate/template/Interpreter.h"
#include "generate/template/Parser.h"

namespace tenon::generate {
namespace {

std::string textOf(const Tokenizer &tokenizer, int32_t token) {
  return token < 0 ? std::string() : std::string(tokenizer.vocabulary().tokens[token]);
}

jinja::Value ofTemplate(std::string_view text) {
  return jinja::Value(jinja::Text::ofTemplate(text));
}

} // namespace

Result<jinja::Text> renderChat(std::string_view chatTemplate, const std::vector<Message> &messages,
                               const Tokenizer &tokenizer) {
  if (chatTemplate.empty()) {
    return Status::error(ErrorId::ChatTemplateMissing, "the model has no chat template",
                         "leave out --chat and --system, or give a template with --template FILE");
  }
  TENON_ASSIGN(jinja::Body program, jinja::parseTemplate(chatTemplate));
  jinja::List list;
  for (const Message &message : messages) {
    // A role is one of a few words that templates put beside their control tokens.
    list.emplace_back(
        jinja::Dict{{ofTemplate("role"), ofTemplate(message.role)},
                    {ofTemplate("content"), jinja::Value(jinja::Text::ofData(message.content))}});
  }
  const Vocabulary &vocabulary = tokenizer.vocabulary();
  jinja::Dict context = {{ofTemplate("messages"), jinja::Value(std::move(list))},
                         {ofTemplate("add_generation_prompt"), jinja::Value(true)},
                         {ofTemplate("bos_token"), ofTemplate(textOf(tokenizer, vocabulary.bos))},
                         {ofTemplate("eos_token"), ofTemplate(textOf(tokenizer, vocabulary.eos))}};
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
