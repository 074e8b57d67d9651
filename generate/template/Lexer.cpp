// Cuts the source. Relies on ASCII for everything but text.
#include "generate/template/Lexer.h"

#include "generate/text/Utf8.h"
#include "support/text/Text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tenon::generate::jinja {
namespace {

constexpr size_t kMostWords = 10'000;

bool isSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool startsName(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Lexer {
public:
  explicit Lexer(std::string newSource) : source(std::move(newSource)) {}

  Result<std::vector<Part>> split();

private:
  bool startsWith(std::string_view text) const {
    return std::string_view(source).substr(at).starts_with(text);
  }
  void skip(size_t count) {
    line += static_cast<int>(std::count(source.begin() + static_cast<std::ptrdiff_t>(at),
                                        source.begin() + static_cast<std::ptrdiff_t>(at + count),
                                        '\n'));
    at += count;
  }
  void addText(std::string text, int first);
  void stripLine(std::string &text) const;
  Status takePart(std::string_view end, Part part);
  Result<Word> takeWord();
  Result<Word> takeString();
  Result<char32_t> takeHex(size_t digits);
  void afterTag(char sign, bool trims);

  std::string source;
  size_t at = 0;
  int line = 1;
  bool strips = false; ///< white space before the next text goes
  std::vector<Part> parts;
};

void Lexer::addText(std::string text, int first) {
  if (strips) {
    text.erase(0, std::ranges::find_if_not(text, isSpace) - text.begin());
    strips = false;
  }
  if (!text.empty()) {
    parts.push_back({Part::Kind::Text, first, std::move(text), {}});
  }
}

/// Of a block that stands first in its line, the white space before it.
void Lexer::stripLine(std::string &text) const {
  size_t end = text.find_last_not_of(" \t"), begin = at - text.size();
  if (end == text.npos ? begin == 0 || source[begin - 1] == '\n' : text[end] == '\n') {
    text.erase(end == text.npos ? 0 : end + 1);
  }
}

/// What a tag leaves of the text behind it.
void Lexer::afterTag(char sign, bool trims) {
  strips = sign == '-';
  if (trims && sign == ' ' && at < source.size() && source[at] == '\n') {
    skip(1);
  }
}

Result<char32_t> Lexer::takeHex(size_t digits) {
  char32_t value = 0;
  for (size_t i = 0; i < digits; ++i) {
    char c = at < source.size() ? source[at] : ' ';
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) {
      return templateError(line, "a text has an escape with too few digits");
    }
    value = value * 16 + static_cast<char32_t>(isDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    skip(1);
  }
  return value;
}

Result<Word> Lexer::takeString() {
  char quote = source[at];
  Word word{Word::Kind::String, "", line};
  skip(1);
  while (at < source.size() && source[at] != quote) {
    char c = source[at];
    skip(1);
    if (c != '\\' || at == source.size()) {
      word.text.push_back(c);
      continue;
    }
    constexpr std::string_view kSigns = "ntrbfav0\\'\"\n", kMeant("\n\t\r\b\f\a\v\0\\'\"", 11);
    char sign = source[at];
    size_t known = kSigns.find(sign);
    skip(1);
    if (sign == 'x' || sign == 'u' || sign == 'U') {
      TENON_ASSIGN(char32_t point, takeHex(sign == 'x' ? 2 : sign == 'u' ? 4 : 8));
      if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
        return templateError(word.line, "a text has an escape that is not a character");
      }
      appendUtf8(word.text, point);
    } else if (known != kSigns.npos) {
      word.text += sign == '\n' ? std::string() : std::string(1, kMeant[known]);
    } else {
      word.text += strCat('\\', sign);
    }
  }
  if (at == source.size()) {
    return templateError(word.line, "a text has no closing quote");
  }
  skip(1);
  return word;
}

Result<Word> Lexer::takeWord() {
  Word word{Word::Kind::Sign, "", line};
  size_t begin = at;
  char c = source[at];
  if (c == '"' || c == '\'') {
    return takeString();
  }
  if (startsName(c)) {
    word.kind = Word::Kind::Name;
    while (at < source.size() && (startsName(source[at]) || isDigit(source[at]))) {
      skip(1);
    }
  } else if (isDigit(c)) {
    word.kind = Word::Kind::Integer;
    auto digits = [&] {
      while (at < source.size() && (isDigit(source[at]) || source[at] == '_')) {
        skip(1);
      }
    };
    digits();
    if (at + 1 < source.size() && source[at] == '.' && isDigit(source[at + 1])) {
      word.kind = Word::Kind::Float;
      skip(1);
      digits();
    }
    if (at + 1 < source.size() && (source[at] | 0x20) == 'e') {
      size_t sign = source[at + 1] == '-' || source[at + 1] == '+' ? 2 : 1;
      if (at + sign < source.size() && isDigit(source[at + sign])) {
        word.kind = Word::Kind::Float;
        skip(sign);
        digits();
      }
    }
  } else {
    constexpr std::array<std::string_view, 7> kLong = {"==", "!=", "<=", ">=", "//", "**", "::"};
    bool isLong = std::ranges::any_of(
        kLong, [&](std::string_view sign) { return sign != "::" && startsWith(sign); });
    skip(isLong ? 2 : 1);
    if (!isLong && std::string_view("+-*/%~|()[]{}.,:=<>").find(c) == std::string_view::npos) {
      return templateError(word.line, strCat("the sign '", c, "' is unknown"));
    }
  }
  word.text = source.substr(begin, at - begin);
  if (word.kind == Word::Kind::Integer || word.kind == Word::Kind::Float) {
    std::erase(word.text, '_');
  }
  return word;
}

/// The words up to the end of the tag.
Status Lexer::takePart(std::string_view end, Part part) {
  std::string closing;
  while (true) {
    size_t spaces = at;
    while (spaces < source.size() && isSpace(source[spaces])) {
      ++spaces;
    }
    skip(spaces - at);
    if (at == source.size()) {
      return templateError(part.line, strCat("a tag has no '", end, "'"));
    }
    // Signs that open are counted, so that a dictionary may end before the tag does.
    bool isSigned = source[at] == '-' || source[at] == '+';
    if (closing.empty() &&
        (startsWith(end) ||
         (isSigned && std::string_view(source).substr(at + 1).starts_with(end)))) {
      char sign = isSigned ? source[at] : ' ';
      skip(end.size() + (isSigned ? 1 : 0));
      part.words.push_back({Word::Kind::End, "", line});
      bool trims = part.kind == Part::Kind::Block;
      parts.push_back(std::move(part));
      afterTag(sign, trims);
      return Status::ok();
    }
    TENON_ASSIGN(Word word, takeWord());
    if (word.kind == Word::Kind::Sign) {
      char c = word.text[0];
      if (c == '(' || c == '[' || c == '{') {
        closing.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      } else if (!closing.empty() && c == closing.back()) {
        closing.pop_back();
      }
    }
    part.words.push_back(std::move(word));
    // A chain of operators is a tree as high as it is long.
    if (part.words.size() > kMostWords) {
      return templateError(part.line, strCat("a tag has more than ", kMostWords, " words"));
    }
  }
}

Result<std::vector<Part>> Lexer::split() {
  while (at < source.size()) {
    size_t next = at;
    while (next < source.size() &&
           !(source[next] == '{' && next + 1 < source.size() &&
             std::string_view("{%#").find(source[next + 1]) != std::string_view::npos)) {
      ++next;
    }
    std::string text = source.substr(at, next - at);
    int first = line;
    skip(next - at);
    if (at == source.size()) {
      addText(std::move(text), first);
      break;
    }
    char kind = source[at + 1];
    char sign = at + 2 < source.size() ? source[at + 2] : ' ';
    bool isSigned = sign == '-' || sign == '+';
    if (sign == '-') {
      text.erase(std::find_if_not(text.rbegin(), text.rend(), isSpace).base() - text.begin());
    } else if (sign != '+' && kind != '{') {
      stripLine(text);
    }
    addText(std::move(text), first);
    strips = false;
    int begin = line;
    skip(isSigned ? 3 : 2);
    if (kind == '#') {
      size_t end = source.find("#}", at);
      if (end == source.npos) {
        return templateError(begin, "a comment has no '#}'");
      }
      char last =
          end > at && (source[end - 1] == '-' || source[end - 1] == '+') ? source[end - 1] : ' ';
      skip(end + 2 - at);
      afterTag(last, /*trims=*/true);
      continue;
    }
    TENON_TRY(takePart(kind == '{' ? "}}" : "%}",
                       {kind == '{' ? Part::Kind::Print : Part::Kind::Block, begin, "", {}}));
  }
  return std::move(parts);
}

} // namespace

Status templateError(int line, std::string_view what) {
  return Status::error(ErrorId::TemplateUnsupported,
                       strCat("line ", line, " of the template: ", what),
                       "give another template with --template FILE");
}

Result<std::vector<Part>> splitTemplate(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text.push_back('\n');
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      text.push_back(source[i]);
    }
  }
  if (text.ends_with('\n')) { // Jinja2 takes one off
    text.pop_back();
  }
  return Lexer(std::move(text)).split();
}

} // namespace tenon::generate::jinja
