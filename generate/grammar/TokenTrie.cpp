// Implements the trees in the order in which a walk visits them.
#include "generate/grammar/TokenTrie.h"

#include "generate/text/Utf8.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tenon::generate::grammar {
namespace {

/// Longer tokens are left out: a depth is a byte, and no answer needs them.
constexpr size_t kMaxTokenBytes = 250;
constexpr uint32_t kMaxCharacters = 64;

/// Characters of a token that a JSON string holds as they are; none where it does not.
std::optional<uint32_t> plainCharacters(std::string_view text) {
  bool isPlain = std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; });
  if (!isPlain) {
    return std::nullopt;
  }
  Result<std::u32string> points = decodeUtf8(text);
  bool is = points.isOk() && points->size() <= kMaxCharacters;
  return is ? std::optional(static_cast<uint32_t>(points->size())) : std::nullopt;
}

using Sorted = std::vector<std::pair<std::string_view, int32_t>>;

/// The tokens from `begin` to `end`, which share their first `depth` bytes.
void grow(TokenTrie::Tree &tree, const Sorted &sorted, size_t begin, size_t end, size_t depth) {
  while (begin < end) {
    size_t next = begin;
    uint8_t byte = static_cast<uint8_t>(sorted[begin].first[depth]);
    while (next < end && static_cast<uint8_t>(sorted[next].first[depth]) == byte) {
      ++next;
    }
    size_t node = tree.nodes.size();
    tree.nodes.push_back(
        {0, static_cast<uint32_t>(tree.tokens.size()), 0, byte, static_cast<uint8_t>(depth)});
    while (begin < next && sorted[begin].first.size() == depth + 1) {
      tree.tokens.push_back(sorted[begin++].second);
    }
    tree.nodes[node].tokenEnd = static_cast<uint32_t>(tree.tokens.size());
    grow(tree, sorted, begin, next, depth + 1);
    tree.nodes[node].end = static_cast<uint32_t>(tree.nodes.size());
    begin = next;
  }
}

TokenTrie::Tree treeOf(Sorted sorted) {
  std::ranges::sort(sorted);
  TokenTrie::Tree tree;
  grow(tree, sorted, 0, sorted.size(), 0);
  return tree;
}

} // namespace

TokenTrie::TokenTrie(const Tokenizer &tokenizer, int64_t vocabulary)
    : size(static_cast<size_t>(vocabulary)) {
  const Vocabulary &source = tokenizer.vocabulary();
  for (int32_t token : source.ends) {
    if (token >= 0 && static_cast<size_t>(token) < size) {
      endTokens.push_back(token);
    }
  }
  size_t known = std::min(size, source.tokens.size());
  bytes.resize(known);
  Sorted plain, other;
  std::vector<std::pair<uint32_t, int32_t>> counts;
  for (size_t i = 0; i < known; ++i) {
    int32_t token = static_cast<int32_t>(i);
    TokenKind kind = source.kinds[i];
    bool isText =
        kind == TokenKind::Normal || kind == TokenKind::UserDefined || kind == TokenKind::Byte;
    std::string_view text = tokenizer.bytesOf(token);
    bool isEnd = std::ranges::find(endTokens, token) != endTokens.end();
    if (!isText || isEnd || text.empty() || text.size() > kMaxTokenBytes) {
      continue;
    }
    bytes[i] = std::string(text);
    longest = std::max(longest, static_cast<uint32_t>(text.size()));
    std::optional<uint32_t> characters = plainCharacters(text);
    (characters ? plain : other).emplace_back(bytes[i], token);
    if (characters) {
      counts.emplace_back(*characters, token);
    }
  }
  plainTree = treeOf(std::move(plain));
  otherTree = treeOf(std::move(other));
  std::ranges::sort(counts);
  TokenBits bits((size + 63) / 64);
  for (auto [characters, token] : counts) {
    plainBits.resize(std::max<size_t>(plainBits.size(), characters), bits);
    setBit(bits, token);
  }
  plainBits.push_back(std::move(bits));
}

const TokenBits &TokenTrie::plainUpTo(uint32_t characters) const {
  return plainBits[std::min<size_t>(characters, plainBits.size() - 1)];
}

} // namespace tenon::generate::grammar
