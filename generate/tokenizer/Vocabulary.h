// What a tokenizer is made of, as the file of a model has it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenon::generate {

/// What a token is.
enum class TokenKind : uint8_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,     ///< takes part only where a template writes it
  UserDefined = 4, ///< is found in any text, whole
  Unused = 5,
  Byte = 6, ///< "<0x0A>"
};

/// How text becomes tokens.
enum class TokenizerForm : uint8_t {
  ByteLevel, ///< bytes in GPT-2's alphabet, merged by rank within the pieces of a pattern
  Scored,    ///< SentencePiece's BPE: code points, merged by score, bytes for what is left
};

/// How a token that counts whole is found, where its text alone does not say.
struct TokenRule {
  int32_t token = -1;
  bool isSingleWord = false; ///< only where no letter or digit stands beside it
  bool takesBefore = false;  ///< white space before it belongs to it
  bool takesBehind = false;
};

struct Vocabulary {
  TokenizerForm form = TokenizerForm::ByteLevel;
  std::vector<std::string> tokens; ///< as the file has them: of ByteLevel in GPT-2's alphabet
  std::vector<TokenKind> kinds;
  std::vector<TokenRule> rules;
  std::vector<float> scores;                               ///< of Scored without merges
  std::vector<std::pair<std::string, std::string>> merges; ///< the first is the best
  /// Each splits what the one before has left in one piece.
  std::vector<std::string> patterns;
  bool composes = false;        ///< NFC before all
  bool ignoresMerges = false;   ///< a whole piece that is a token is that token
  bool addsSpacePrefix = false; ///< of Scored: before the text
  bool prefixesAll = true;      ///< before each text between control tokens too
  bool prefixesOnce = false;    ///< but not before a space
  bool takesGivenSpace =
      true; ///< of the texts behind the first, one that begins with a space has it
  bool addsBos = false, addsEos = false;
  int32_t bos = -1, eos = -1, unknown = -1; ///< -1 for none
  /// Tokens that end a text.
  std::vector<int32_t> ends;
};

} // namespace tenon::generate
