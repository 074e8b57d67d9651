// The names of pre-tokenizers in GGUF files. A file has the name alone, so each is a row here; one
// that is not is refused, since any other pattern gives other tokens without a word.
#include "generate/tokenizer/Tokenizer.h"

namespace tenon::generate {
namespace {

// Parts that several patterns share.
#define TENON_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define TENON_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
#define TENON_SIGNS R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"

#define TENON_AFTER "[^\\r\\n\\p{L}\\p{N}]?"
#define TENON_RAISED "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define TENON_LOWERED "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TENON_CASED(end)                                                                           \
  TENON_AFTER TENON_RAISED "*" TENON_LOWERED "+" end "|" TENON_AFTER TENON_RAISED                  \
                           "+" TENON_LOWERED "*" end "|"
#define TENON_PATHS R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define TENON_GPT4O TENON_CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") R"(\p{N}{1,3})" TENON_PATHS
#define TENON_DEEPSEEK                                                                             \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"        \
  R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define TENON_QWEN35                                                                               \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"                          \
  R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"

struct Row {
  std::string_view name;
  std::string_view first, second;
  bool composes = false;
  bool ignoresMerges = false;
  bool addsBos = false;
  std::string_view third = {};
};

constexpr Row kRows[] = {
    {"gpt-2", TENON_GPT2, {}},
    {"smollm", R"(\p{N})", TENON_GPT2},
    {"starcoder", R"(\p{N})", TENON_GPT2},
    {"command-r", R"(\p{N})", TENON_GPT2, true},
    {"exaone", R"(\p{N})", TENON_GPT2},
    {"llama-bpe", TENON_CONTRACTIONS R"(\p{N}{1,3})" TENON_SIGNS, {}, false, true, true},
    {"llama3", TENON_CONTRACTIONS R"(\p{N}{1,3})" TENON_SIGNS, {}, false, true, true},
    {"llama-v3", TENON_CONTRACTIONS R"(\p{N}{1,3})" TENON_SIGNS, {}, false, true, true},
    {"dbrx", TENON_CONTRACTIONS R"(\p{N}{1,3})" TENON_SIGNS, {}},
    {"smaug-bpe", TENON_CONTRACTIONS R"(\p{N}{1,3})" TENON_SIGNS, {}},
    {"qwen2", TENON_CONTRACTIONS R"(\p{N})" TENON_SIGNS, {}, true},
    {"deepseek-r1-qwen", TENON_CONTRACTIONS R"(\p{N})" TENON_SIGNS, {}, true},
    {"qwen35", TENON_QWEN35, {}, true},
    {"tekken", TENON_CASED("") R"(\p{N})" TENON_PATHS, {}, false, true, true},
    {"gpt-4o", TENON_GPT4O, {}},
    {"llama4", TENON_GPT4O, {}},
    {"deepseek-v3", R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)", false, false, false,
     TENON_DEEPSEEK},
};

} // namespace

bool applyPreTokenizer(std::string_view name, Vocabulary &vocabulary) {
  for (const Row &row : kRows) {
    if (row.name == name) {
      vocabulary.patterns.clear();
      for (std::string_view pattern : {row.first, row.second, row.third}) {
        if (!pattern.empty()) {
          vocabulary.patterns.emplace_back(pattern);
        }
      }
      vocabulary.composes = row.composes;
      vocabulary.ignoresMerges = row.ignoresMerges;
      vocabulary.addsBos = vocabulary.addsBos || row.addsBos;
      return true;
    }
  }
  return false;
}

std::string_view preTokenizerOf(const Vocabulary &vocabulary) {
  for (const Row &row : kRows) {
    Vocabulary named;
    bool isEqual = applyPreTokenizer(row.name, named) && named.patterns == vocabulary.patterns &&
                   named.composes == vocabulary.composes &&
                   named.ignoresMerges == vocabulary.ignoresMerges;
    if (isEqual) {
      return row.name;
    }
  }
  return {};
}

} // namespace tenon::generate
