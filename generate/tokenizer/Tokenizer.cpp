// Merges tokens. Relies on the vocabulary having a token for each byte that texts have.
// One file: the index of the vocabulary and the two ways of merging over it.
#include "generate/tokenizer/Tokenizer.h"

#include "generate/text/Utf8.h"
#include "generate/tokenizer/CodeClass.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace tenon::generate {
namespace {

constexpr std::string_view kSpaceSign = "\xe2\x96\x81"; // U+2581

Status badVocabulary(std::string_view what) {
  return Status::error(ErrorId::TokenizerBad, std::string(what),
                       "convert the model again with a current converter");
}

/// GPT-2's alphabet: bytes that print stand for themselves, the others for U+0100 and what follows.
char32_t signOf(uint8_t byte) {
  auto prints = [](int value) {
    return (value >= '!' && value <= '~') || (value >= 0xa1 && value <= 0xac) || value >= 0xae;
  };
  if (prints(byte)) {
    return byte;
  }
  char32_t sign = 0x100;
  for (int value = 0; value < byte; ++value) {
    sign += prints(value) ? 0 : 1;
  }
  return sign;
}

/// Bytes behind a text of the alphabet; none where it has another sign.
std::optional<std::string> bytesBehind(std::string_view text) {
  static const std::unordered_map<char32_t, uint8_t> kBytes = [] {
    std::unordered_map<char32_t, uint8_t> map;
    for (int byte = 0; byte < 256; ++byte) {
      map[signOf(static_cast<uint8_t>(byte))] = static_cast<uint8_t>(byte);
    }
    return map;
  }();
  Result<std::u32string> points = decodeUtf8(text);
  if (!points) {
    return std::nullopt;
  }
  std::string bytes;
  for (char32_t point : *points) {
    auto found = kBytes.find(point);
    if (found == kBytes.end()) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(found->second));
  }
  return bytes;
}

/// "<0x0A>" as 10.
std::optional<uint8_t> byteNamed(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') {
    return std::nullopt;
  }
  auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  int high = digit(token[3]), low = digit(token[4]);
  return high >= 0 && low >= 0 ? std::optional(static_cast<uint8_t>(high * 16 + low))
                               : std::nullopt;
}

uint64_t pairOf(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

void replaceAll(std::string &text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// The first code point of a text, and its bytes; none of no text, and where it is not UTF-8.
std::optional<std::pair<char32_t, size_t>> firstPoint(std::string_view text) {
  for (size_t size = 1; size <= std::min<size_t>(4, text.size()); ++size) {
    if (Result<std::u32string> points = decodeUtf8(text.substr(0, size))) {
      return std::pair(points->front(), size);
    }
  }
  return std::nullopt;
}

std::optional<std::pair<char32_t, size_t>> lastPoint(std::string_view text) {
  for (size_t size = 1; size <= std::min<size_t>(4, text.size()); ++size) {
    if (Result<std::u32string> points = decodeUtf8(text.substr(text.size() - size))) {
      return std::pair(points->back(), size);
    }
  }
  return std::nullopt;
}

void dropSpacesAtBegin(std::string &text) {
  size_t count = 0;
  while (auto point = firstPoint(std::string_view(text).substr(count))) {
    if (classOf(point->first) != CodeClass::Space) {
      break;
    }
    count += point->second;
  }
  text.erase(0, count);
}

void dropSpacesAtEnd(std::string &text) {
  while (auto point = lastPoint(text)) {
    if (classOf(point->first) != CodeClass::Space) {
      return;
    }
    text.resize(text.size() - point->second);
  }
}

/// Neighbours that are merged, the best first and of equals the leftmost.
template <typename Rank, typename Find>
void mergeAll(std::vector<int32_t> &symbols, const Find &find) {
  struct Candidate {
    Rank rank;
    size_t left, right;
    int32_t leftSymbol, rightSymbol, result;
    bool operator<(const Candidate &other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  size_t count = symbols.size();
  std::vector<size_t> before(count), after(count);
  for (size_t i = 0; i < count; ++i) {
    before[i] = i - 1;
    after[i] = i + 1;
  }
  std::priority_queue<Candidate> queue;
  auto consider = [&](size_t left, size_t right) {
    if (left >= count || right >= count) {
      return;
    }
    if (auto merge = find(symbols[left], symbols[right])) {
      queue.push({merge->first, left, right, symbols[left], symbols[right], merge->second});
    }
  };
  for (size_t i = 0; i + 1 < count; ++i) {
    consider(i, i + 1);
  }
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    bool isCurrent = symbols[best.left] == best.leftSymbol && after[best.left] == best.right &&
                     symbols[best.right] == best.rightSymbol;
    if (!isCurrent) {
      continue;
    }
    symbols[best.left] = best.result;
    symbols[best.right] = -1;
    after[best.left] = after[best.right];
    if (after[best.right] < count) {
      before[after[best.right]] = best.left;
    }
    consider(before[best.left], best.left);
    consider(best.left, after[best.left]);
  }
  std::erase(symbols, -1);
}

} // namespace

//===--- The vocabulary ---===//

Result<Tokenizer> Tokenizer::create(Vocabulary vocabulary) {
  Tokenizer made;
  made.source = std::move(vocabulary);
  for (const std::string &text : made.source.patterns) {
    TENON_ASSIGN(Pattern pattern, Pattern::parse(text));
    made.patterns.push_back(std::move(pattern));
  }
  TENON_TRY(made.index());
  TENON_TRY(made.indexMerges());
  return made;
}

Status Tokenizer::index() {
  size_t count = source.tokens.size();
  source.kinds.resize(count, TokenKind::Normal);
  bool needsScores = source.form == TokenizerForm::Scored && source.merges.empty();
  if (count == 0 || count > size_t{1} << 24 || (needsScores && source.scores.size() != count)) {
    return badVocabulary(
        strCat("the vocabulary has ", count, " tokens and ", source.scores.size(), " scores"));
  }
  for (int32_t id : {source.bos, source.eos, source.unknown}) {
    if (id < -1 || id >= static_cast<int32_t>(count)) {
      return badVocabulary(strCat("the token ", id, " is outside the vocabulary of ", count));
    }
  }
  std::ranges::fill(byteTokens, -1);
  for (size_t i = 0; i < count; ++i) {
    const std::string &token = source.tokens[i];
    int32_t id = static_cast<int32_t>(i);
    bool isText = source.kinds[i] == TokenKind::Normal || source.kinds[i] == TokenKind::Byte;
    if (!byText.emplace(token, id).second && isText) {
      return badVocabulary(strCat("the token '", token, "' occurs twice"));
    }
    std::optional<std::string> behind;
    if (source.form == TokenizerForm::ByteLevel && isText) {
      behind = bytesBehind(token);
    } else if (std::optional<uint8_t> byte = byteNamed(token);
               byte && source.kinds[i] == TokenKind::Byte) {
      behind = std::string(1, static_cast<char>(*byte));
    }
    std::string text = behind.value_or(token);
    if (source.form == TokenizerForm::Scored && source.kinds[i] == TokenKind::Normal) {
      replaceAll(text, kSpaceSign, " ");
    } else if (source.kinds[i] == TokenKind::UserDefined) {
      text = withSpaces(text);
    }
    bool isByte = text.size() == 1 &&
                  (source.form == TokenizerForm::ByteLevel ? source.kinds[i] == TokenKind::Normal
                                                           : source.kinds[i] == TokenKind::Byte);
    if (isByte) {
      byteTokens[static_cast<uint8_t>(text[0])] = id;
    }
    bytes.push_back(std::move(text));
    bool isWhole =
        source.kinds[i] == TokenKind::Control || source.kinds[i] == TokenKind::UserDefined;
    std::string written = withSpaces(token);
    if (isWhole && !token.empty() && specials.emplace(written, id).second) {
      specialSizes[static_cast<uint8_t>(written[0])].push_back(written.size());
    }
  }
  for (std::vector<size_t> &sizes : specialSizes) {
    std::ranges::sort(sizes, std::greater<>());
    sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
  }
  for (const TokenRule &rule : source.rules) {
    if (rule.token < 0 || rule.token >= static_cast<int32_t>(count)) {
      return badVocabulary(
          strCat("the token ", rule.token, " is outside the vocabulary of ", count));
    }
    rules.emplace(rule.token, rule);
  }
  bool hasBytes = std::ranges::find(byteTokens, -1) == std::end(byteTokens);
  if (source.form == TokenizerForm::Scored) {
    if (!hasBytes && source.unknown < 0) {
      return badVocabulary("the vocabulary has neither tokens for all bytes nor an unknown one");
    }
    if (std::ranges::any_of(source.scores, [](float score) { return std::isnan(score); })) {
      return badVocabulary("a token's score is not a number");
    }
  }
  return Status::ok();
}

Status Tokenizer::indexMerges() {
  merges.reserve(source.merges.size());
  for (size_t rank = 0; rank < source.merges.size(); ++rank) {
    const auto &[left, right] = source.merges[rank];
    int32_t a = find(left), b = find(right), result = find(left + right);
    if (a < 0 || b < 0 || result < 0) {
      return badVocabulary(strCat("the merge '", left, ' ', right, "' does not join two tokens"));
    }
    if (source.kinds[result] == TokenKind::Control) {
      continue; // no text becomes one
    }
    merges.emplace(pairOf(a, b), Merge{static_cast<int32_t>(rank), result});
  }
  return Status::ok();
}

int32_t Tokenizer::find(std::string_view token) const {
  auto found = byText.find(token);
  return found == byText.end() ? -1 : found->second;
}

/// Of those that text can become.
int32_t Tokenizer::findText(std::string_view token) const {
  int32_t found = find(token);
  return found >= 0 && (source.kinds[found] == TokenKind::Normal ||
                        source.kinds[found] == TokenKind::UserDefined)
             ? found
             : -1;
}

//===--- Text to tokens ---===//

int32_t Tokenizer::specialAt(std::string_view text, bool isOfTemplate) const {
  for (size_t size : specialSizes[static_cast<uint8_t>(text[0])]) {
    auto found = size <= text.size() ? specials.find(text.substr(0, size)) : specials.end();
    if (found != specials.end() &&
        (isOfTemplate || source.kinds[found->second] != TokenKind::Control)) {
      return found->second;
    }
  }
  return -1;
}

std::string Tokenizer::withSpaces(std::string_view text) const {
  std::string written(text);
  if (source.form == TokenizerForm::Scored && source.merges.empty()) {
    replaceAll(written, kSpaceSign, " ");
  }
  return written;
}

TokenRule Tokenizer::ruleOf(int32_t token) const {
  auto found = rules.find(token);
  return found == rules.end() ? TokenRule{} : found->second;
}

bool Tokenizer::fits(int32_t token, std::string_view before, std::string_view behind) const {
  if (!ruleOf(token).isSingleWord) {
    return true;
  }
  auto left = lastPoint(before), right = firstPoint(behind);
  return !(left && isOfWord(left->first)) && !(right && isOfWord(right->first));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::span<const TextPart> parts) const {
  std::vector<int32_t> tokens;
  if (source.addsBos && source.bos >= 0) {
    tokens.push_back(source.bos);
  }
  // What lies between special tokens is one text, whoever wrote its parts.
  std::string whole, between;
  std::vector<size_t> ends;
  for (const TextPart &part : parts) {
    whole += withSpaces(part.text);
    ends.push_back(whole.size());
  }
  bool isFirst = true;
  TokenRule last;
  auto flush = [&](const TokenRule &next) -> Status {
    if (last.takesBehind) {
      dropSpacesAtBegin(between);
    }
    if (next.takesBefore) {
      dropSpacesAtEnd(between);
    }
    last = next;
    // The space that SentencePiece puts before a text: models are trained with each text between
    // special tokens encoded by itself. A template that writes the space means that one.
    bool hasSpace = between.starts_with(' ') || between.starts_with(kSpaceSign);
    bool isGiven = hasSpace && (source.prefixesOnce || (source.takesGivenSpace && !isFirst));
    bool addsSpace = source.addsSpacePrefix && (isFirst || source.prefixesAll) && !isGiven;
    TENON_TRY(encodeText(between, addsSpace, tokens));
    isFirst = false;
    between.clear();
    return Status::ok();
  };
  std::string_view text = whole;
  size_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    while (at < ends[i]) {
      int32_t special = specialAt(text.substr(at, ends[i] - at), parts[i].isOfTemplate);
      size_t size = special < 0 ? 1 : withSpaces(source.tokens[special]).size();
      if (special < 0 || !fits(special, text.substr(0, at), text.substr(at + size))) {
        between += text.substr(at, size);
        at += size;
        continue;
      }
      TENON_TRY(flush(ruleOf(special)));
      tokens.push_back(special);
      at += size;
    }
  }
  TENON_TRY(flush({}));
  if (source.addsEos && source.eos >= 0) {
    tokens.push_back(source.eos);
  }
  return tokens;
}

Status Tokenizer::encodeText(std::string_view text, bool addsSpace,
                             std::vector<int32_t> &tokens) const {
  if (text.empty()) {
    return Status::ok();
  }
  if (source.form == TokenizerForm::ByteLevel) {
    return encodeByteLevel(text, tokens);
  }
  std::string changed(addsSpace ? " " : "");
  changed += text;
  return encodeScored(changed, tokens);
}

Status Tokenizer::encodeByteLevel(std::string_view text, std::vector<int32_t> &tokens) const {
  TENON_ASSIGN(std::u32string points, decodeUtf8(text));
  if (source.composes) {
    TENON_ASSIGN(std::string normal, composed(text));
    TENON_ASSIGN(points, decodeUtf8(normal));
  }
  using Piece = std::pair<size_t, size_t>;
  std::vector<Piece> pieces = {{0, points.size()}};
  uint64_t steps = Pattern::stepsFor(points.size());
  for (const Pattern &pattern : patterns) {
    std::vector<Piece> next;
    for (auto [begin, end] : pieces) {
      std::u32string_view piece = std::u32string_view(points).substr(0, end);
      size_t gap = begin;
      for (size_t at = begin; at < end;) {
        TENON_ASSIGN(size_t to, pattern.match(piece.substr(begin), at - begin, steps));
        if (to == Pattern::kNone || to + begin == at) {
          ++at;
          continue;
        }
        if (gap < at) {
          next.emplace_back(gap, at);
        }
        next.emplace_back(at, begin + to);
        at = gap = begin + to;
      }
      if (gap < end) {
        next.emplace_back(gap, end);
      }
    }
    pieces = std::move(next);
  }
  for (auto [begin, end] : pieces) {
    encodePiece(std::u32string_view(points).substr(begin, end - begin), tokens);
  }
  return Status::ok();
}

void Tokenizer::mergeByRank(std::vector<int32_t> &symbols) const {
  mergeAll<int32_t>(symbols, [&](int32_t left, int32_t right) {
    auto found = merges.find(pairOf(left, right));
    return found == merges.end()
               ? std::optional<std::pair<int32_t, int32_t>>()
               : std::optional(std::pair(found->second.rank, found->second.result));
  });
}

void Tokenizer::encodePiece(std::u32string_view piece, std::vector<int32_t> &tokens) const {
  std::string text = encodeUtf8(piece), signs;
  std::vector<int32_t> symbols;
  for (char c : text) {
    symbols.push_back(byteTokens[static_cast<uint8_t>(c)]);
    appendUtf8(signs, signOf(static_cast<uint8_t>(c)));
  }
  if (int32_t whole = source.ignoresMerges ? findText(signs) : -1; whole >= 0) {
    tokens.push_back(whole);
    return;
  }
  mergeByRank(symbols);
  tokens.insert(tokens.end(), symbols.begin(), symbols.end());
}

Status Tokenizer::encodeScored(std::string_view text, std::vector<int32_t> &tokens) const {
  TENON_ASSIGN(std::u32string points, decodeUtf8(text));
  // A symbol is a token, or where its text is none an index beyond the vocabulary.
  std::vector<std::string> others;
  std::vector<int32_t> symbols;
  int32_t count = static_cast<int32_t>(source.tokens.size());
  for (char32_t point : points) {
    std::string sign;
    appendUtf8(sign, point == ' ' ? U'\u2581' : point);
    int32_t token = findText(sign);
    symbols.push_back(token >= 0 ? token : count + static_cast<int32_t>(others.size()));
    if (token < 0) {
      others.push_back(std::move(sign));
    }
  }
  auto textOf = [&](int32_t symbol) -> const std::string & {
    return symbol < count ? source.tokens[symbol] : others[symbol - count];
  };
  if (!source.merges.empty()) {
    mergeByRank(symbols);
  } else {
    mergeAll<float>(symbols, [&](int32_t left, int32_t right) {
      int32_t result = findText(textOf(left) + textOf(right));
      return result < 0 ? std::optional<std::pair<float, int32_t>>()
                        : std::optional(std::pair(-source.scores[result], result));
    });
  }
  bool afterUnknown = false;
  for (int32_t symbol : symbols) {
    if (symbol < count) {
      tokens.push_back(symbol);
      afterUnknown = false;
      continue;
    }
    auto hasByte = [&](char c) { return byteTokens[static_cast<uint8_t>(c)] >= 0; };
    bool isUnknown = !std::ranges::all_of(textOf(symbol), hasByte);
    for (char c : isUnknown ? std::string_view() : std::string_view(textOf(symbol))) {
      tokens.push_back(byteTokens[static_cast<uint8_t>(c)]);
    }
    if (isUnknown && !afterUnknown) { // neighbours are one
      tokens.push_back(source.unknown);
    }
    afterUnknown = isUnknown;
  }
  return Status::ok();
}

//===--- Tokens to text ---===//

std::string_view Tokenizer::bytesOf(int32_t token) const {
  return token >= 0 && token < static_cast<int32_t>(bytes.size()) ? std::string_view(bytes[token])
                                                                  : std::string_view();
}

bool Tokenizer::isControl(int32_t token) const {
  return token >= 0 && token < static_cast<int32_t>(source.kinds.size()) &&
         (source.kinds[token] == TokenKind::Control || source.kinds[token] == TokenKind::Unknown ||
          source.kinds[token] == TokenKind::Unused);
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (int32_t token : tokens) {
    text += isControl(token) ? std::string_view() : bytesOf(token);
  }
  if (source.form == TokenizerForm::Scored && source.addsSpacePrefix && text.starts_with(' ')) {
    text.erase(0, 1);
  }
  return text;
}

} // namespace tenon::generate
