// Reads GGUF's keys of tokenizers. What a key's absence means is what converters meant by it.
#include "compiler/frontend/language/Text.h"

#include "compiler/frontend/language/Describe.h"
#include "compiler/frontend/language/Folder.h"
#include "generate/template/Parser.h"
#include "generate/tokenizer/Tokenizer.h"
#include "generate/tokenizer/VocabularyJson.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace tenon::language {
namespace {

using generate::TokenizerForm;
using generate::TokenKind;
using generate::Vocabulary;

class TextReader {
public:
  TextReader(const Model &model, std::vector<frontend::Gap> &gaps) : model(model), gaps(gaps) {}

  Result<std::vector<frontend::Asset>> read(int64_t positions, int64_t pages);

private:
  const gguf::Value *find(std::string_view part) const {
    return model.file.find(strCat("tokenizer.", part));
  }
  void gap(std::string_view key, std::string why, std::string workaround) {
    gaps.push_back({.opType = "tokenizer",
                    .domain = "gguf",
                    .node = strCat("tokenizer.", key),
                    .source = {},
                    .dtype = {},
                    .why = std::move(why),
                    .workaround = std::move(workaround)});
  }
  Status bad(std::string_view what) const {
    return Status::error(ErrorId::TokenizerBad, std::string(what),
                         "convert the model again with a current converter");
  }
  bool truth(std::string_view part, bool otherwise) const {
    const gguf::Value *value = find(part);
    return value ? value->truth().value_or(otherwise) : otherwise;
  }
  int32_t token(std::string_view part) const {
    const gguf::Value *value = find(part);
    std::optional<int64_t> number = value ? value->integer() : std::optional<int64_t>();
    // The vocabulary's check names a token that is not there.
    return number ? static_cast<int32_t>(std::clamp<int64_t>(*number, -2, int64_t{1} << 30)) : -1;
  }
  /// None without a tokenizer, or after a gap.
  Result<std::optional<Vocabulary>> readVocabulary();
  bool readForm(Vocabulary &vocabulary);
  Status readTokens(Vocabulary &vocabulary);
  Status readMerges(Vocabulary &vocabulary);
  void readEnds(Vocabulary &vocabulary);
  std::string readTemplate();

  const Model &model;
  std::vector<frontend::Gap> &gaps;
};

/// False after a gap.
bool TextReader::readForm(Vocabulary &vocabulary) {
  const gguf::Value *kind = find("ggml.model"), *name = find("ggml.pre");
  std::string_view text = kind->text().value_or("?");
  if (text == "llama") {
    vocabulary.form = TokenizerForm::Scored;
    return true;
  }
  if (text != "gpt2") {
    gap("ggml.model", strCat("tokenizers of the kind '", text, "' are not supported"),
        "use a file whose tokenizer is of the kind 'gpt2' or 'llama'");
    return false;
  }
  // Without a name the file says nothing of how it splits text, and a guess gives other tokens.
  std::string_view pre = name ? name->text().value_or("?") : "";
  if (!generate::applyPreTokenizer(pre, vocabulary)) {
    gap("ggml.pre",
        pre.empty() ? std::string("the file does not name its pre-tokenizer")
                    : strCat("the pre-tokenizer '", pre, "' is not supported"),
        "convert the model again with a current converter");
    return false;
  }
  return true;
}

Status TextReader::readTokens(Vocabulary &vocabulary) {
  const gguf::Value *tokens = find("ggml.tokens"), *kinds = find("ggml.token_type"),
                    *scores = find("ggml.scores");
  if (!tokens || !tokens->list() || tokens->list()->texts.empty()) {
    return bad("it has no key 'tokenizer.ggml.tokens' with the texts of tokens");
  }
  for (std::string_view text : tokens->list()->texts) {
    vocabulary.tokens.emplace_back(text);
  }
  size_t count = vocabulary.tokens.size();
  if (static_cast<int64_t>(count) != model.vocabulary) {
    return bad(strCat("the tokenizer has ", count, " tokens and the embedding ", model.vocabulary,
                      " rows"));
  }
  const gguf::Value::List *kindsList = kinds ? kinds->list() : nullptr;
  if (kinds && (!kindsList || kindsList->integers.size() != count)) {
    return bad(
        strCat("'tokenizer.ggml.token_type' is ", kinds->describe(), " for ", count, " tokens"));
  }
  for (size_t i = 0; kindsList && i < count; ++i) {
    int64_t kind = kindsList->integers[i];
    if (kind < 1 || kind > 6) {
      return bad(strCat("the token ", i, " is of the kind ", kind, "; kinds are 1 to 6"));
    }
    vocabulary.kinds.push_back(static_cast<TokenKind>(kind));
  }
  if (const gguf::Value::List *list = scores ? scores->list() : nullptr) {
    vocabulary.scores.assign(list->numbers.begin(), list->numbers.end());
  }
  return Status::ok();
}

Status TextReader::readMerges(Vocabulary &vocabulary) {
  const gguf::Value *merges = find("ggml.merges");
  if (vocabulary.form == TokenizerForm::Scored) {
    return Status::ok();
  }
  if (!merges || !merges->list()) {
    return bad("it has no key 'tokenizer.ggml.merges'");
  }
  for (std::string_view merge : merges->list()->texts) {
    // A token may be a space's sign, never a space: the first parts the two.
    size_t space = merge.find(' ', 1);
    if (space == merge.npos) {
      return bad(strCat("the merge '", merge, "' is not two tokens"));
    }
    vocabulary.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return Status::ok();
}

void TextReader::readEnds(Vocabulary &vocabulary) {
  vocabulary.bos = token("ggml.bos_token_id");
  vocabulary.eos = token("ggml.eos_token_id");
  vocabulary.unknown = token("ggml.unknown_token_id");
  for (std::string_view key : {"ggml.eos_token_id", "ggml.eot_token_id", "ggml.eom_token_id"}) {
    int32_t id = token(key);
    if (id >= 0 && std::ranges::find(vocabulary.ends, id) == vocabulary.ends.end()) {
      vocabulary.ends.push_back(id);
    }
  }
  bool isScored = vocabulary.form == TokenizerForm::Scored;
  vocabulary.addsBos = truth("ggml.add_bos_token", isScored || vocabulary.addsBos);
  vocabulary.addsEos = truth("ggml.add_eos_token", false);
  vocabulary.addsSpacePrefix = isScored && truth("ggml.add_space_prefix", true);
}

std::string TextReader::readTemplate() {
  const gguf::Value *value = find("chat_template");
  std::string text(model.folder ? chatTemplateOf(*model.folder, gaps)
                   : value      ? std::string(value->text().value_or(""))
                                : "");
  Result<generate::jinja::Body> parsed = generate::jinja::parseTemplate(text);
  if (!parsed) {
    gap("chat_template", std::string(parsed.status().message()), "");
  }
  return text;
}

Result<std::optional<Vocabulary>> TextReader::readVocabulary() {
  if (!find("ggml.model")) {
    return std::optional<Vocabulary>();
  }
  Vocabulary vocabulary;
  bool isKnown = readForm(vocabulary);
  TENON_TRY(readTokens(vocabulary));
  TENON_TRY(readMerges(vocabulary));
  readEnds(vocabulary);
  return isKnown ? std::optional(std::move(vocabulary)) : std::optional<Vocabulary>();
}

Result<std::vector<frontend::Asset>> TextReader::read(int64_t positions, int64_t pages) {
  std::vector<frontend::Asset> assets;
  TENON_ASSIGN(std::optional<Vocabulary> vocabulary,
               model.folder ? language::readVocabulary(*model.folder, model.vocabulary, gaps)
                            : readVocabulary());
  std::string chat = readTemplate();
  Json facts = {{"family", model.family->name},   {"context", model.context},
                {"positions", positions},         {"layers", model.layers},
                {"vocabulary", model.vocabulary}, {"template", std::move(chat)}};
  // What each input is for whoever drives the engine, and its name.
  std::vector<std::string> ports = {"tokens", "start", "rows", "context"};
  if (pages > 0) {
    facts["page"] = kPagePositions;
    facts["pages"] = pages;
    ports = {"tokens", "positions", "slots", "starts", "lengths", "pages", "rows"};
  }
  for (const std::string &port : ports) {
    facts["ports"][port] = port;
  }
  facts.update(describe(model));
  Json tokenizer;
  if (vocabulary) {
    tokenizer = toJson(*vocabulary);
    TENON_TRY(generate::Tokenizer::create(std::move(*vocabulary)).status());
  }
  for (auto [name, value] : {std::pair("language", &facts), {"tokenizer", &tokenizer}}) {
    if (value->is_null()) {
      continue;
    }
    std::optional<std::string> text = dumpUtf8(*value);
    if (!text) {
      return bad("a token or the chat template is not UTF-8");
    }
    assets.push_back({name, std::move(*text)});
  }
  return assets;
}

} // namespace

Result<std::vector<frontend::Asset>> readText(const Model &model, int64_t positions, int64_t pages,
                                              std::vector<frontend::Gap> &gaps) {
  return TextReader(model, gaps).read(positions, pages);
}

} // namespace tenon::language
