// The tokens of a vocabulary by their bytes, as masks are made of them.
#pragma once

#include "generate/tokenizer/Tokenizer.h"

#include <cstdint>
#include <vector>

namespace tenon::generate::grammar {

/// A bit for each token.
using TokenBits = std::vector<uint64_t>;

inline void setBit(TokenBits &bits, int32_t token) {
  bits[static_cast<size_t>(token) / 64] |= uint64_t(1) << (token % 64);
}

/// Immutable; the tokenizer need not outlive it.
class TokenTrie {
public:
  /// A node's children stand behind it, up to `end`.
  struct Node {
    uint32_t end = 0;
    uint32_t firstToken = 0, tokenEnd = 0; ///< in `tokens`
    uint8_t byte = 0;
    uint8_t depth = 0;
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<int32_t> tokens;
  };

  /// Of all tokens with bytes but those that end a text. `vocabulary` is the number of logits.
  TokenTrie(const Tokenizer &tokenizer, int64_t vocabulary);

  size_t vocabulary() const { return size; }
  /// Bytes of the longest token, of those that are in it.
  uint32_t maxBytes() const { return longest; }
  /// Tokens of whole characters that a JSON string holds as they are.
  const Tree &plain() const { return plainTree; }
  const Tree &other() const { return otherTree; }
  /// The plain ones of at most so many characters.
  const TokenBits &plainUpTo(uint32_t characters) const;
  const std::vector<int32_t> &ends() const { return endTokens; }
  std::string_view bytesOf(int32_t token) const {
    return static_cast<size_t>(token) < bytes.size() ? std::string_view(bytes[token])
                                                     : std::string_view();
  }

private:
  size_t size;
  uint32_t longest = 0;
  std::vector<std::string> bytes; ///< of each token; none of those that are left out
  std::vector<int32_t> endTokens;
  Tree plainTree, otherTree;
  std::vector<TokenBits> plainBits; ///< by characters
};

} // namespace tenon::generate::grammar
