// The names of pre-tokenizers in GGUF files. A file has the name alone, so each is a row here; one
// that is not is refused, since any other pattern gives other tokens without a word.
#include "generate/tokenizer/Tokenizer.h"

namespace tenon::generate {
namespace {

// Parts that several patterns share.
#define TENON_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define TENON_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
#define TENON_SIGNS R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"

struct Row {
  std::string_view name;
  std::string_view first, second;
  bool composes = false;
  bool ignoresMerges = false;
  bool addsBos = false;
};

constexpr Row kRows[] = {
    {"gpt-2", TENON_GPT2, {}},
    {"smollm", R"(\p{N})", TENON_GPT2},
    {"starcoder", R"(\p{N})", TENON_GPT2},
    {"command-r", R"(\p{N})", TENON_GPT2},
    {"exaone", R"(\p{N})", TENON_GPT2},
    {"llama-bpe", TENON_CONTRACTIONS R"(\p{N}{1,3})" TENON_SIGNS, {}, false, true, true},
    {"dbrx", TENON_CONTRACTIONS R"(\p{N}{1,3})" TENON_SIGNS, {}},
    {"smaug-bpe", TENON_CONTRACTIONS R"(\p{N}{1,3})" TENON_SIGNS, {}},
    {"qwen2", TENON_CONTRACTIONS R"(\p{N})" TENON_SIGNS, {}, true},
    {"deepseek-r1-qwen", TENON_CONTRACTIONS R"(\p{N})" TENON_SIGNS, {}, true},
};

} // namespace

bool applyPreTokenizer(std::string_view name, Vocabulary &vocabulary) {
  for (const Row &row : kRows) {
    if (row.name == name) {
      vocabulary.patterns = {std::string(row.first)};
      if (!row.second.empty()) {
        vocabulary.patterns.emplace_back(row.second);
      }
      vocabulary.composes = row.composes;
      vocabulary.ignoresMerges = row.ignoresMerges;
      vocabulary.addsBos = vocabulary.addsBos || row.addsBos;
      return true;
    }
  }
  return false;
}

} // namespace tenon::generate
