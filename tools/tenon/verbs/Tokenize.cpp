// `tenon tokenize`: the tokens of a text, as a language model reads it.

#include "generate/tokenizer/Tokenizer.h"
#include "generate/tokenizer/VocabularyJson.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/generate/ModelText.h"
#include "tools/view/Escape.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>

namespace tenon::tool {
namespace {

using generate::Tokenizer;

struct TokenizeFlags {
  std::string model;
  std::optional<std::string> text;
  bool parsesSpecial = false;
};

Status tokenize(const TokenizeFlags &flags, Terminal &terminal) {
  TENON_ASSIGN(Json record, textRecord(flags.model, "tokenizer"));
  TENON_ASSIGN(generate::Vocabulary vocabulary, generate::vocabularyOf(record));
  TENON_ASSIGN(Tokenizer tokenizer, Tokenizer::create(std::move(vocabulary)));
  std::string text =
      flags.text ? *flags.text : std::string(std::istreambuf_iterator<char>(std::cin), {});
  generate::TextPart part{text, flags.parsesSpecial};
  TENON_ASSIGN(std::vector<int32_t> tokens, tokenizer.encode(std::span(&part, 1)));
  if (terminal.json()) {
    terminal.printJson("tokenize", {{"tokens", tokens}});
    return Status::ok();
  }
  std::string lines;
  for (int32_t token : tokens) {
    lines += fmt::format("{:>7}  {}\n", token, view::visible(tokenizer.bytesOf(token)));
  }
  terminal.print(lines + fmt::format("{} tokens\n", tokens.size()));
  return Status::ok();
}

} // namespace

Action declareTokenize(CLI::App &command) {
  std::shared_ptr<TokenizeFlags> flags = std::make_shared<TokenizeFlags>();
  command
      .add_option("MODEL", flags->model,
                  "A GGUF file, a Hugging Face folder, or an engine compiled from one")
      ->required();
  command.add_option("TEXT", flags->text, "The text; without it standard input");
  command.add_flag("--special", flags->parsesSpecial,
                   "Read control tokens such as <|im_end|> in the text as tokens");
  return [flags](Terminal &terminal) { return tokenize(*flags, terminal); };
}

} // namespace tenon::tool
