// tokenizer.json as a vocabulary. The file says in full how text is split, merged and put together
// again; whatever it says that the tokenizer does not do is a gap, by its name.
//
// One file: what one part of tokenizer.json means follows from what the others say.
#include "compiler/frontend/language/Folder.h"

#include "generate/tokenizer/Tokenizer.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::language {
namespace {

using generate::TokenizerForm;
using generate::TokenKind;
using generate::Vocabulary;

constexpr std::string_view kSpaceSign = "\xe2\x96\x81"; // U+2581
constexpr int64_t kMaxTokens = int64_t{1} << 24;

Status badTokenizer(std::string_view what) {
  return Status::error(ErrorId::TokenizerBad, strCat("tokenizer.json: ", what),
                       "download the whole folder again");
}

/// A member of an object; null where there is none.
const Json &memberOf(const Json &value, std::string_view key) {
  static const Json kNone;
  auto found = value.is_object() ? value.find(key) : value.end();
  return value.is_object() && found != value.end() ? *found : kNone;
}

std::string textOf(const Json &value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool isTrue(const Json &value, bool otherwise = false) {
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

/// The number of a token, or -1.
int32_t numberOf(const Json &value, int64_t rows) {
  bool isToken = value.is_number_unsigned() &&
                 value.get<uint64_t>() < static_cast<uint64_t>(std::min(rows, kMaxTokens));
  return isToken ? static_cast<int32_t>(value.get<uint64_t>()) : -1;
}

/// A token as tokenizer_config.json has it: its text, or an object with it.
std::string tokenText(const Json &value) {
  return textOf(value.is_object() ? memberOf(value, "content") : value);
}

/// The text as a regular expression that matches it alone.
std::string escaped(std::string_view text) {
  std::string pattern;
  for (char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) {
      pattern.push_back('\\');
    }
    pattern.push_back(c);
  }
  return pattern;
}

/// Steps of a sequence, or the one that stands alone; `list` names the sequence's member.
std::vector<const Json *> stepsOf(const Json &value, std::string_view list) {
  std::vector<const Json *> steps;
  if (textOf(memberOf(value, "type")) != "Sequence") {
    if (!value.is_null()) {
      steps.push_back(&value);
    }
    return steps;
  }
  for (const Json &step : memberOf(value, list)) {
    for (const Json *inner : stepsOf(step, list)) {
      steps.push_back(inner);
    }
  }
  return steps;
}

class VocabularyReader {
public:
  VocabularyReader(const Folder &theFolder, int64_t theRows, std::vector<frontend::Gap> &theGaps)
      : folder(theFolder), root(theFolder.tokenizer), rows(theRows), gaps(theGaps) {}

  Result<std::optional<Vocabulary>> read();

private:
  void gap(std::string_view part, std::string why, std::string workaround = {}) {
    hasGap = true;
    gaps.push_back({.opType = "tokenizer.json",
                    .domain = "huggingface",
                    .node = std::string(part),
                    .source = {},
                    .dtype = {},
                    .why = std::move(why),
                    .workaround = std::move(workaround)});
  }
  void gapOf(std::string_view part, const Json &value) {
    gap(part, strCat(dumpJson(value).substr(0, 120), " is not supported"));
  }
  void readModel();
  void readNormalizer();
  void readPreTokenizer();
  void readSplit(const Json &step);
  void readMetaspace(const Json &step);
  void readDecoder();
  Status readTokens();
  Status readAdded();
  Status readMerges();
  void readPostProcessor();
  void readEnds();
  int32_t find(std::string_view text) const {
    auto found = numbers.find(text);
    return found == numbers.end() ? -1 : found->second;
  }

  const Folder &folder;
  const Json &root;
  int64_t rows;
  std::vector<frontend::Gap> &gaps;
  bool hasGap = false, hasByteLevel = false, signsSpaces = false, prepends = false;
  Vocabulary made;
  std::map<std::string, int32_t, std::less<>> numbers;
};

void VocabularyReader::readModel() {
  const Json &model = memberOf(root, "model");
  std::string type = textOf(memberOf(model, "type"));
  if (type != "BPE" && !(type.empty() && memberOf(model, "merges").is_array())) {
    gap("model", strCat("tokenizers of the kind '", type, "' are not supported"));
  }
  for (std::string_view key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json &value = memberOf(model, key);
    if (!value.is_null() && value != "" && value != 0.0) {
      gap(strCat("model.", key), strCat(dumpJson(value).substr(0, 40), " is not supported"));
    }
  }
  made.ignoresMerges = isTrue(memberOf(model, "ignore_merges"));
}

void VocabularyReader::readNormalizer() {
  for (const Json *step : stepsOf(memberOf(root, "normalizer"), "normalizers")) {
    std::string type = textOf(memberOf(*step, "type"));
    if (type == "NFC") {
      made.composes = true;
    } else if (type == "Replace" && memberOf(memberOf(*step, "pattern"), "String") == " " &&
               memberOf(*step, "content") == kSpaceSign) {
      signsSpaces = true;
    } else if (type == "Prepend" && memberOf(*step, "prepend") == kSpaceSign && !signsSpaces) {
      prepends = true;
      made.addsSpacePrefix = made.prefixesAll = true;
      made.takesGivenSpace = false;
    } else {
      gapOf("normalizer", *step);
    }
  }
}

void VocabularyReader::readSplit(const Json &step) {
  const Json &pattern = memberOf(step, "pattern");
  std::string regex = textOf(memberOf(pattern, "Regex")),
              text = textOf(memberOf(pattern, "String")),
              behavior = textOf(memberOf(step, "behavior"));
  if (signsSpaces && text == " ") {
    return; // no space is left to split at
  }
  if (behavior != "Isolated" || isTrue(memberOf(step, "invert")) ||
      (regex.empty() && text.empty())) {
    return gapOf("pre_tokenizer", step);
  }
  made.patterns.push_back(regex.empty() ? escaped(text) : regex);
}

void VocabularyReader::readMetaspace(const Json &step) {
  std::string scheme = textOf(memberOf(step, "prepend_scheme"));
  if (scheme.empty()) {
    scheme = isTrue(memberOf(step, "add_prefix_space"), true) ? "always" : "never";
  }
  if (memberOf(step, "replacement") != kSpaceSign || isTrue(memberOf(step, "split"), true)) {
    return gapOf("pre_tokenizer", step);
  }
  signsSpaces = true;
  made.addsSpacePrefix = scheme != "never";
  made.prefixesAll = scheme == "always";
  made.prefixesOnce = true;
  made.takesGivenSpace = false;
}

void VocabularyReader::readPreTokenizer() {
  for (const Json *step : stepsOf(memberOf(root, "pre_tokenizer"), "pretokenizers")) {
    std::string type = textOf(memberOf(*step, "type"));
    if (hasByteLevel) {
      gapOf("pre_tokenizer", *step); // it would split signs of bytes
    } else if (type == "Split") {
      readSplit(*step);
    } else if (type == "Digits") {
      made.patterns.push_back(isTrue(memberOf(*step, "individual_digits")) ? R"(\p{N})"
                                                                           : R"(\p{N}+)");
    } else if (type == "Metaspace") {
      readMetaspace(*step);
    } else if (type == "ByteLevel" && !isTrue(memberOf(*step, "add_prefix_space"))) {
      hasByteLevel = true;
      Vocabulary named;
      if (isTrue(memberOf(*step, "use_regex"), true) &&
          generate::applyPreTokenizer("gpt-2", named)) {
        made.patterns.push_back(named.patterns.front());
      }
    } else {
      gapOf("pre_tokenizer", *step);
    }
  }
  made.form = hasByteLevel ? TokenizerForm::ByteLevel : TokenizerForm::Scored;
  bool isConsistent =
      hasByteLevel ? !signsSpaces && !prepends
                   : signsSpaces && made.patterns.empty() && !made.composes && !made.ignoresMerges;
  if (!isConsistent && !hasGap) {
    gap("pre_tokenizer", "neither bytes nor the sign U+2581 stand for spaces alone");
  }
}

/// The decoder undoes what was done to the text; one that does something else is a gap.
void VocabularyReader::readDecoder() {
  const Json &model = memberOf(root, "model");
  bool strips = false;
  for (const Json *step : stepsOf(memberOf(root, "decoder"), "decoders")) {
    std::string type = textOf(memberOf(*step, "type"));
    bool isLeft = type == "Strip" && memberOf(*step, "content") == " " &&
                  memberOf(*step, "start") == 1 && memberOf(*step, "stop") == 0;
    bool isMetaspace = type == "Metaspace" &&
                       textOf(memberOf(*step, "prepend_scheme")) != "never" &&
                       isTrue(memberOf(*step, "add_prefix_space"), true);
    bool isSpace = type == "Replace" &&
                   memberOf(memberOf(*step, "pattern"), "String") == kSpaceSign &&
                   memberOf(*step, "content") == " ";
    strips |= isLeft || isMetaspace;
    bool isKnown = hasByteLevel ? type == "ByteLevel"
                                : isLeft || isSpace || type == "Metaspace" || type == "Fuse" ||
                                      type == "ByteFallback";
    if (!isKnown) {
      gapOf("decoder", *step);
    }
  }
  if (!hasByteLevel && strips != made.addsSpacePrefix && !hasGap) {
    gap("decoder", "it does not remove the space that precedes a text");
  }
  if (!hasByteLevel && !isTrue(memberOf(model, "byte_fallback")) &&
      !isTrue(memberOf(model, "fuse_unk"))) {
    gap("model.fuse_unk", "a token for each unknown character is not supported");
  }
}

Status VocabularyReader::readTokens() {
  const Json &tokens = memberOf(memberOf(root, "model"), "vocab");
  if (!tokens.is_object()) {
    return badTokenizer("it has no 'model.vocab' of tokens and their numbers");
  }
  auto add = [&](const std::string &text, const Json &value) -> Status {
    int32_t number = numberOf(value, rows);
    if (number < 0 || numbers.emplace(text, number).first->second != number) {
      return badTokenizer(strCat("the token '", text, "' is ", dumpJson(value).substr(0, 40),
                                 ", and the embedding has ", rows,
                                 " rows, or it has another number too"));
    }
    return Status::ok();
  };
  for (auto &[text, number] : tokens.items()) {
    TENON_TRY(add(text, number));
  }
  for (const Json &token : memberOf(root, "added_tokens")) {
    TENON_TRY(add(textOf(memberOf(token, "content")), memberOf(token, "id")));
  }
  // Rows of the embedding that are no token: their texts are told apart alone.
  made.tokens.resize(static_cast<size_t>(rows));
  made.kinds.assign(made.tokens.size(), TokenKind::Unused);
  bool hasByteTokens = isTrue(memberOf(memberOf(root, "model"), "byte_fallback"));
  for (const auto &[text, number] : numbers) {
    if (made.kinds[number] != TokenKind::Unused) {
      return badTokenizer(
          strCat("the tokens '", text, "' and '", made.tokens[number], "' have one number"));
    }
    bool isByte = hasByteTokens && text.size() == 6 && text.starts_with("<0x") && text[5] == '>';
    made.tokens[number] = text;
    made.kinds[number] = isByte ? TokenKind::Byte : TokenKind::Normal;
  }
  for (size_t i = 0; i < made.tokens.size(); ++i) {
    if (made.kinds[i] == TokenKind::Unused) {
      made.tokens[i] = strCat("[PAD", i, ']');
    }
  }
  made.unknown = find(textOf(memberOf(memberOf(root, "model"), "unk_token")));
  return Status::ok();
}

Status VocabularyReader::readAdded() {
  for (const Json &token : memberOf(root, "added_tokens")) {
    std::string text = textOf(memberOf(token, "content"));
    int32_t number = find(text);
    bool isSpecial = isTrue(memberOf(token, "special"));
    generate::TokenRule rule{.token = number,
                             .isSingleWord = isTrue(memberOf(token, "single_word")),
                             .takesBefore = isTrue(memberOf(token, "lstrip")),
                             .takesBehind = isTrue(memberOf(token, "rstrip"))};
    bool hasSign = text.find(kSpaceSign) != text.npos;
    if (!hasByteLevel && isTrue(memberOf(token, "normalized")) &&
        (prepends || text.find(' ') != text.npos)) {
      gap(strCat("added_tokens '", text, "'"), "a token that is normalized is not supported");
    }
    bool hasRule = rule.isSingleWord || rule.takesBefore || rule.takesBehind;
    // Text has spaces where such a token has their sign: merges make it.
    bool isWhole = isSpecial || hasByteLevel || !hasSign;
    if (hasRule && isWhole) {
      made.rules.push_back(rule);
    } else if (hasRule) {
      gap(strCat("added_tokens '", text, "'"),
          "lstrip, rstrip and single_word of spaces are not supported");
    }
    if (isWhole) {
      made.kinds[number] = number == made.unknown ? TokenKind::Unknown
                           : isSpecial            ? TokenKind::Control
                                                  : TokenKind::UserDefined;
    }
  }
  return Status::ok();
}

Status VocabularyReader::readMerges() {
  for (const Json &merge : memberOf(memberOf(root, "model"), "merges")) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      made.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    std::string text = textOf(merge);
    size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) {
      return badTokenizer(
          strCat("the merge ", dumpJson(merge).substr(0, 40), " is not two tokens"));
    }
    made.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return Status::ok();
}

/// What is put before and behind a text: by tokenizer_config.json where it says so.
void VocabularyReader::readPostProcessor() {
  const Json &config = folder.tokenizerConfig;
  made.bos = find(tokenText(memberOf(config, "bos_token")));
  made.eos = find(tokenText(memberOf(config, "eos_token")));
  const Json &addsBos = memberOf(config, "add_bos_token"),
             &addsEos = memberOf(config, "add_eos_token");
  if (addsBos.is_boolean() || addsEos.is_boolean()) {
    made.addsBos = isTrue(addsBos) && made.bos >= 0;
    made.addsEos = isTrue(addsEos) && made.eos >= 0;
    return;
  }
  for (const Json *step : stepsOf(memberOf(root, "post_processor"), "processors")) {
    std::string type = textOf(memberOf(*step, "type"));
    if (type == "ByteLevel") {
      continue; // it moves offsets alone
    }
    bool isBefore = true, isKnown = type == "TemplateProcessing";
    for (const Json &part : memberOf(*step, "single")) {
      const Json &special = memberOf(part, "SpecialToken");
      if (special.is_null()) {
        isKnown &= isBefore;
        isBefore = false;
        continue;
      }
      int32_t number = find(textOf(memberOf(special, "id")));
      bool &adds = isBefore ? made.addsBos : made.addsEos;
      isKnown &= number >= 0 && !adds;
      adds = true;
      (isBefore ? made.bos : made.eos) = number;
    }
    if (!isKnown) {
      gapOf("post_processor", *step);
    }
  }
}

void VocabularyReader::readEnds() {
  const Json &stated = memberOf(folder.generationConfig, "eos_token_id");
  const Json &ends = stated.is_null() ? memberOf(folder.config, "eos_token_id") : stated;
  auto add = [&](const Json &number) {
    int32_t token = numberOf(number, rows);
    if (token >= 0 && std::ranges::find(made.ends, token) == made.ends.end()) {
      made.ends.push_back(token);
    }
  };
  if (!ends.is_array()) {
    add(ends);
  }
  for (const Json &number : ends.is_array() ? ends : Json::array()) {
    add(number);
  }
  if (made.ends.empty() && made.eos >= 0) {
    made.ends.push_back(made.eos);
  }
}

Result<std::optional<Vocabulary>> VocabularyReader::read() {
  if (root.is_null()) {
    if (folder.hasOtherTokenizer) {
      gap("tokenizer.json", "the folder has its tokenizer in another form only",
          "save the tokenizer with transformers: AutoTokenizer.from_pretrained(FOLDER)"
          ".save_pretrained(FOLDER)");
    }
    return std::optional<Vocabulary>();
  }
  readModel();
  readNormalizer();
  readPreTokenizer();
  readDecoder();
  if (hasGap) {
    return std::optional<Vocabulary>();
  }
  TENON_TRY(readTokens());
  TENON_TRY(readAdded());
  TENON_TRY(readMerges());
  readPostProcessor();
  readEnds();
  return hasGap ? std::optional<Vocabulary>() : std::optional(std::move(made));
}

} // namespace

Result<std::optional<Vocabulary>> readVocabulary(const Folder &folder, int64_t rows,
                                                 std::vector<frontend::Gap> &gaps) {
  return VocabularyReader(folder, rows, gaps).read();
}

std::string chatTemplateOf(const Folder &folder, std::vector<frontend::Gap> &gaps) {
  if (folder.templateFile) {
    return *folder.templateFile;
  }
  const Json &value = memberOf(folder.tokenizerConfig, "chat_template");
  if (!value.is_array()) {
    return textOf(value);
  }
  for (const Json &named : value) {
    if (memberOf(named, "name") == "default") {
      return textOf(memberOf(named, "template"));
    }
  }
  gaps.push_back({.opType = "tokenizer_config.json",
                  .domain = "huggingface",
                  .node = "chat_template",
                  .source = {},
                  .dtype = {},
                  .why = "none of several templates is named 'default'",
                  .workaround = "name one with --template"});
  return {};
}

} // namespace tenon::language
