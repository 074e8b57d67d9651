// A parser by recursive descent with a bound on its depth.

#include "server/protocol/TextProto.h"

#include "server/protocol/JsonText.h"

#include <fmt/format.h>

#include <cctype>

namespace tenon::server {
namespace {

constexpr unsigned kMaxNesting = 16;
constexpr size_t kMaxFields = 100'000;

class Parser {
public:
  Parser(std::string_view text, std::string_view file) : text(text), file(file) {}

  Status parseFields(std::vector<TextField> &fields, char end, unsigned depth) {
    if (depth > kMaxNesting) {
      return fault("messages are nested too deeply");
    }
    for (;;) {
      skipSpace();
      if (end != '\0' && peek() == end) {
        ++at;
        return Status::ok();
      }
      if (at == text.size()) {
        return end == '\0' ? Status::ok() : fault(fmt::format("the file ends before '{}'", end));
      }
      TENON_TRY(parseField(fields, depth));
      skipSpace();
      if (peek() == ',' || peek() == ';') {
        ++at;
      }
    }
  }

private:
  Status fault(std::string_view what) const {
    return Status::error(ErrorId::BadModelConfig, fmt::format("{}:{}: {}", file, line, what));
  }
  char peek() const { return at < text.size() ? text[at] : '\0'; }

  void skipSpace() {
    for (; at < text.size(); ++at) {
      if (text[at] == '#') {
        at = text.find('\n', at);
        if (at == std::string_view::npos) {
          at = text.size();
          return;
        }
      }
      if (text[at] == '\n') {
        ++line;
      } else if (text[at] != ' ' && text[at] != '\t' && text[at] != '\r') {
        return;
      }
    }
  }

  std::string_view takeWord() {
    size_t begin = at;
    while (at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' ||
            text[at] == '.' || text[at] == '-' || text[at] == '+')) {
      ++at;
    }
    return text.substr(begin, at - begin);
  }

  Status parseField(std::vector<TextField> &fields, unsigned depth) {
    TextField field;
    field.line = line;
    field.name = takeWord();
    if (field.name.empty()) {
      return fault("a field name was expected");
    }
    skipSpace();
    bool hasColon = peek() == ':';
    if (hasColon) {
      ++at;
      skipSpace();
    }
    if (peek() != '[') {
      return parseValue(fields, std::move(field), hasColon, depth);
    }
    ++at;
    skipSpace();
    while (peek() != ']') {
      field.line = line;
      TENON_TRY(parseValue(fields, field, hasColon, depth));
      skipSpace();
      if (peek() == ',') {
        ++at;
        skipSpace();
      } else if (peek() != ']') {
        return fault("',' or ']' was expected");
      }
    }
    ++at;
    return Status::ok();
  }

  Status parseValue(std::vector<TextField> &fields, TextField field, bool hasColon,
                    unsigned depth) {
    if (++fieldCount > kMaxFields) {
      return fault("there are too many fields");
    }
    if (peek() == '{' || peek() == '<') {
      char end = peek() == '{' ? '}' : '>';
      ++at;
      field.isMessage = true;
      TENON_TRY(parseFields(field.fields, end, depth + 1));
    } else if (!hasColon) {
      return fault(fmt::format("':' was expected after '{}'", field.name.substr(0, 64)));
    } else if (peek() == '"' || peek() == '\'') {
      field.isString = true;
      TENON_TRY(parseString(field.value));
    } else {
      field.value = takeWord();
      if (field.value.empty()) {
        return fault(fmt::format("a value was expected after '{}'", field.name.substr(0, 64)));
      }
    }
    fields.push_back(std::move(field));
    return Status::ok();
  }

  /// Adjacent strings are one.
  Status parseString(std::string &value) {
    while (peek() == '"' || peek() == '\'') {
      char quote = text[at++];
      while (peek() != quote) {
        if (at == text.size() || text[at] == '\n') {
          return fault("a string has no end");
        }
        char c = text[at++];
        if (c == '\\') {
          TENON_TRY(parseEscape(c));
        }
        value += c;
      }
      ++at;
      skipSpace();
    }
    return Status::ok();
  }

  Status parseEscape(char &c) {
    constexpr std::string_view kLetters = "nrt\"'\\", kMeant = "\n\r\t\"'\\";
    size_t found = at < text.size() ? kLetters.find(text[at]) : std::string_view::npos;
    if (found == std::string_view::npos) {
      return fault("a string has an unknown escape");
    }
    ++at;
    c = kMeant[found];
    return Status::ok();
  }

  std::string_view text;
  std::string_view file;
  size_t at = 0;
  unsigned line = 1;
  size_t fieldCount = 0;
};

} // namespace

Result<std::vector<TextField>> parseTextProto(std::string_view text, std::string_view file) {
  if (!isUtf8(text)) {
    return Status::error(ErrorId::BadModelConfig, fmt::format("{}: the text is not UTF-8", file));
  }
  std::vector<TextField> fields;
  Parser parser(text, file);
  TENON_TRY(parser.parseFields(fields, '\0', 0));
  return fields;
}

} // namespace tenon::server
