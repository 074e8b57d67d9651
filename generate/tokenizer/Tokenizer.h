// Text as the tokens of a model, and back. Immutable: any number of threads may share one.
#pragma once

#include "generate/tokenizer/Pattern.h"
#include "generate/tokenizer/Vocabulary.h"
#include "support/Result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::generate {

/// Text, and who wrote it: control tokens count only where a template wrote them, so that no prompt
/// can end its own turn.
struct TextPart {
  std::string_view text;
  bool isOfTemplate = false;
};

class Tokenizer {
public:
  /// TN0249 where the vocabulary contradicts itself; TN0246 for a pattern that is not known.
  static Result<Tokenizer> create(Vocabulary vocabulary);

  /// The tokens of parts that are one text. TN0248 for text that is not UTF-8.
  Result<std::vector<int32_t>> encode(std::span<const TextPart> parts) const;
  Result<std::vector<int32_t>> encode(std::string_view text) const {
    TextPart part{text};
    return encode(std::span(&part, 1));
  }

  /// The bytes of a token; those of control tokens are none, unless they are asked for. Not always
  /// whole UTF-8.
  std::string_view bytesOf(int32_t token) const;
  bool isControl(int32_t token) const;
  /// Of all tokens, without those for control.
  std::string decode(std::span<const int32_t> tokens) const;

  const Vocabulary &vocabulary() const { return source; }
  size_t size() const { return source.tokens.size(); }
  /// -1 where there is none.
  int32_t find(std::string_view token) const;

private:
  struct Merge {
    int32_t rank, result;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Numbers = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;

  Status index();
  Status indexMerges();
  Status encodeText(std::string_view text, bool addsSpace, std::vector<int32_t> &tokens) const;
  Status encodeByteLevel(std::string_view text, std::vector<int32_t> &tokens) const;
  void mergeByRank(std::vector<int32_t> &symbols) const;
  void encodePiece(std::u32string_view piece, std::vector<int32_t> &tokens) const;
  Status encodeScored(std::string_view text, std::vector<int32_t> &tokens) const;
  /// The longest token that counts whole, or -1.
  int32_t specialAt(std::string_view text, bool isOfTemplate) const;
  /// A text as tokens are looked for in it: to SentencePiece, the sign of a space is a space.
  std::string withSpaces(std::string_view text) const;
  TokenRule ruleOf(int32_t token) const;
  /// Whether a token may stand between two texts.
  bool fits(int32_t token, std::string_view before, std::string_view behind) const;
  int32_t findText(std::string_view token) const;

  Vocabulary source;
  std::vector<Pattern> patterns;
  std::vector<std::string> bytes; ///< of each token
  Numbers byText;
  std::unordered_map<uint64_t, Merge> merges; ///< by the tokens to the left and the right
  int32_t byteTokens[256];                    ///< of single bytes, -1 for none
  Numbers specials;
  std::unordered_map<int32_t, TokenRule> rules; ///< by token
  std::vector<size_t> specialSizes[256];        ///< by first byte, the largest first
};

/// The patterns that a name in a GGUF file stands for; none where it is not known. `composes` and
/// the like follow from the name too.
bool applyPreTokenizer(std::string_view name, Vocabulary &vocabulary);
/// The name for how a vocabulary of bytes splits and merges; empty for none.
std::string_view preTokenizerOf(const Vocabulary &vocabulary);

} // namespace tenon::generate
