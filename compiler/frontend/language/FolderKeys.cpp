// Types of values are those that readers of GGUF ask for: 32 bits for numbers of both kinds.
#include "compiler/frontend/language/FolderKeys.h"

#include "generate/tokenizer/Tokenizer.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::language {
namespace {

using generate::Vocabulary;

void putKey(const std::string &key, const gguf::Value &value, gguf::Writer &writer) {
  if (std::optional<std::string_view> text = value.text()) {
    writer.putText(key, *text);
  } else if (std::optional<bool> truth = value.truth()) {
    writer.putTruth(key, *truth);
  } else if (std::optional<int64_t> integer = value.integer()) {
    writer.putNumber(key, static_cast<uint32_t>(*integer));
  } else if (const gguf::Value::List *list = value.list()) {
    writer.putTruths(key, list->integers); // which layers have a window
  } else {
    writer.putFloat(key, static_cast<float>(value.number().value_or(0)));
  }
}

class TokenizerKeys {
public:
  TokenizerKeys(const Vocabulary &theVocabulary, gguf::Writer &theWriter,
                std::vector<frontend::Gap> &theGaps, std::vector<std::string> &theNotes)
      : vocabulary(theVocabulary), writer(theWriter), gaps(theGaps), notes(theNotes) {}

  void put() {
    std::string_view pre = generate::preTokenizerOf(vocabulary);
    if (vocabulary.form != generate::TokenizerForm::ByteLevel || pre.empty()) {
      gaps.push_back({.opType = "tokenizer.json",
                      .domain = "huggingface",
                      .node = "pre_tokenizer",
                      .source = {},
                      .dtype = {},
                      .why = vocabulary.form != generate::TokenizerForm::ByteLevel
                                 ? "tokenizers without an alphabet of bytes are not written to GGUF"
                                 : "GGUF has no name for its patterns",
                      .workaround = "quantize a GGUF file of the model"});
      return;
    }
    writer.putText("tokenizer.ggml.model", "gpt2");
    writer.putText("tokenizer.ggml.pre", pre);
    writer.putTexts("tokenizer.ggml.tokens", vocabulary.tokens);
    std::vector<int32_t> kinds;
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
      kinds.push_back(i < vocabulary.kinds.size() ? static_cast<int32_t>(vocabulary.kinds[i]) : 1);
    }
    writer.putIntegers("tokenizer.ggml.token_type", kinds);
    std::vector<std::string> merges;
    for (const auto &[left, right] : vocabulary.merges) {
      merges.push_back(strCat(left, ' ', right));
    }
    writer.putTexts("tokenizer.ggml.merges", merges);
    putToken("bos", vocabulary.bos);
    putToken("unknown", vocabulary.unknown);
    putEnds();
    writer.putTruth("tokenizer.ggml.add_bos_token", vocabulary.addsBos);
    writer.putTruth("tokenizer.ggml.add_eos_token", vocabulary.addsEos);
  }

private:
  void putToken(std::string_view name, int32_t token) {
    if (token >= 0) {
      writer.putNumber(strCat("tokenizer.ggml.", name, "_token_id"), static_cast<uint32_t>(token));
    }
  }

  /// The token that ends a text, and up to two others that end an answer.
  void putEnds() {
    constexpr std::string_view kOthers[] = {"eot", "eom"};
    int32_t eos = vocabulary.eos >= 0        ? vocabulary.eos
                  : !vocabulary.ends.empty() ? vocabulary.ends.front()
                                             : -1;
    putToken("eos", eos);
    size_t next = 0;
    for (int32_t end : vocabulary.ends) {
      if (end == eos) {
        continue;
      }
      if (next == std::size(kOthers)) {
        notes.push_back(strCat("GGUF has room for three tokens that end an answer: ", end,
                               " ends none in the output"));
        continue;
      }
      putToken(kOthers[next++], end);
    }
  }

  const Vocabulary &vocabulary;
  gguf::Writer &writer;
  std::vector<frontend::Gap> &gaps;
  std::vector<std::string> &notes;
};

} // namespace

Status putFolderKeys(const Folder &folder, int64_t rows, gguf::Writer &writer,
                     std::vector<frontend::Gap> &gaps, std::vector<std::string> &notes) {
  for (const auto &[key, value] : folder.file.keys) {
    putKey(key, value, writer);
  }
  TENON_ASSIGN(std::optional<Vocabulary> vocabulary, readVocabulary(folder, rows, gaps));
  if (vocabulary) {
    TokenizerKeys(*vocabulary, writer, gaps, notes).put();
  } else if (gaps.empty()) {
    notes.emplace_back("the folder has no tokenizer.json, so the output has no tokenizer");
  }
  std::string chat = chatTemplateOf(folder, gaps);
  if (!chat.empty()) {
    writer.putText("tokenizer.chat_template", chat);
  }
  return Status::ok();
}

} // namespace tenon::language
