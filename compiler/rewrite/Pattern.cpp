// Recursive descent over the text of a pattern.
#include "compiler/rewrite/Pattern.h"

#include "compiler/rewrite/Json.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringExtras.h"

namespace tenon::rewrite {
namespace {

using llvm::StringRef;
namespace json = llvm::json;

bool isWordCharacter(char letter) { return llvm::isAlnum(letter) || letter == '_'; }

class Parser {
public:
  explicit Parser(StringRef pattern) : whole(pattern), rest(pattern) {}

  Result<Pattern> parse() {
    TENON_ASSIGN(Pattern pattern, term(0));
    skipSpace();
    if (!rest.empty()) {
      return fault("the pattern should end");
    }
    if (pattern.kind != Pattern::Kind::Op) {
      return badEdit("a pattern is an operation, as relu(x)");
    }
    return pattern;
  }

private:
  static constexpr int kDeepest = 100;

  void skipSpace() { rest = rest.ltrim(); }
  bool take(StringRef token) {
    skipSpace();
    return rest.consume_front(token);
  }
  std::string word() {
    skipSpace();
    StringRef taken = rest.take_while(isWordCharacter);
    rest = rest.drop_front(taken.size());
    return taken.str();
  }
  Status fault(std::string_view what) const {
    return badEdit(strCat("in the pattern '", std::string_view(whole), "' at ",
                          whole.size() - rest.size(), ": ", what),
                   "a pattern is written y:relu(add(x, _), ...)");
  }

  Result<Pattern> term(int depth) {
    if (depth == kDeepest) {
      return fault("it is too deep");
    }
    Pattern pattern;
    skipSpace();
    if (!rest.empty() &&
        (llvm::isDigit(rest.front()) || rest.front() == '-' || rest.front() == '.')) {
      return number();
    }
    std::string first = word();
    if (first.empty()) {
      return fault("a name, an operation or a number should stand here");
    }
    if (take(":")) {
      pattern.name = first;
      first = word();
    }
    std::vector<std::string> ops = {first};
    while (take("|")) {
      ops.push_back(word());
    }
    if (!take("(")) {
      if (!pattern.name.empty() || ops.size() > 1) {
        return fault("'(' and operands should stand here");
      }
      pattern.name = first == "_" ? "" : first;
      return pattern;
    }
    pattern.kind = Pattern::Kind::Op;
    pattern.ops = std::move(ops);
    TENON_TRY(arguments(pattern, depth));
    return pattern;
  }

  Result<Pattern> number() {
    StringRef text = rest.take_while(
        [](char c) { return isWordCharacter(c) || c == '.' || c == '-' || c == '+'; });
    Pattern pattern;
    pattern.kind = Pattern::Kind::Number;
    if (text.getAsDouble(pattern.number)) {
      return fault("this is not a number");
    }
    rest = rest.drop_front(text.size());
    return pattern;
  }

  Status arguments(Pattern &pattern, int depth) {
    for (bool isFirst = true; !take(")"); isFirst = false) {
      if (!isFirst && !take(",")) {
        return fault("',' or ')' should stand here");
      }
      if (take("...")) {
        pattern.mayHaveMore = true;
        continue;
      }
      StringRef before = rest;
      std::string key = word();
      if (!key.empty() && take("=")) {
        TENON_ASSIGN(json::Value value, attributeValue());
        pattern.attributes.emplace_back(key, std::move(value));
        continue;
      }
      rest = before;
      if (pattern.mayHaveMore) {
        return fault("'...' is the last operand");
      }
      TENON_ASSIGN(Pattern operand, term(depth + 1));
      pattern.operands.push_back(std::move(operand));
    }
    return Status::ok();
  }

  /// JSON; a word that is none is a string.
  Result<json::Value> attributeValue() {
    skipSpace();
    size_t end = 0;
    bool isQuoted = false;
    for (int open = 0; end < rest.size(); ++end) {
      char letter = rest[end];
      isQuoted ^= letter == '"';
      bool isEnd = open == 0 && !isQuoted && (letter == ',' || letter == ')');
      if (isEnd) {
        break;
      }
      open += letter == '[' ? 1 : letter == ']' ? -1 : 0;
    }
    std::string text = rest.take_front(end).trim().str();
    rest = rest.drop_front(end);
    if (text.empty()) {
      return fault("the value of an attribute should stand here");
    }
    llvm::Expected<json::Value> value = json::parse(text);
    if (value) {
      return std::move(*value);
    }
    llvm::consumeError(value.takeError());
    return json::Value(text);
  }

  StringRef whole;
  StringRef rest;
};

} // namespace

Result<Pattern> parsePattern(StringRef text) { return Parser(text).parse(); }

} // namespace tenon::rewrite
