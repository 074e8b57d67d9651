// Recursive descent, in Jinja2's order of precedence.
// One file: statements and expressions are one grammar.
#include "generate/template/Parser.h"

#include "generate/template/Lexer.h"
#include "support/text/Text.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace tenon::generate::jinja {
namespace {

constexpr int kMostParseDepth = 200;

class Parser {
public:
  explicit Parser(std::vector<Part> newParts) : parts(std::move(newParts)) {}

  Result<Body> parse() {
    TENON_ASSIGN(Body body, takeBody({}));
    return body;
  }

private:
  using Kind = Expression::Kind;

  // Words of the tag at hand.
  const Word &word() const { return parts[part].words[position]; }
  const Word &nextWord() const {
    return parts[part].words[std::min(position + 1, parts[part].words.size() - 1)];
  }
  bool isSign(std::string_view sign) const {
    return word().kind == Word::Kind::Sign && word().text == sign;
  }
  bool isName(std::string_view name) const {
    return word().kind == Word::Kind::Name && word().text == name;
  }
  bool takeSign(std::string_view sign) { return isSign(sign) && ++position > 0; }
  bool takeName(std::string_view name) { return isName(name) && ++position > 0; }
  Status expectSign(std::string_view sign) {
    return takeSign(sign) ? Status::ok() : unexpected(strCat("'", sign, "'"));
  }
  Status expectEnd() {
    if (word().kind != Word::Kind::End) {
      return unexpected("the end of the tag");
    }
    ++part;
    position = 0;
    return Status::ok();
  }
  Status unexpected(std::string_view expected) const {
    return templateError(
        word().line, word().kind == Word::Kind::End
                         ? strCat("the tag ends where ", expected, " is expected")
                         : strCat("'", word().text, "' is found where ", expected, " is expected"));
  }
  Result<std::string> takeIdentifier() {
    if (word().kind != Word::Kind::Name) {
      return unexpected("a name");
    }
    return parts[part].words[position++].text;
  }

  /// Statements up to a block of one of these names, which is not taken.
  Result<Body> takeBody(std::initializer_list<std::string_view> ends);
  Result<Statement> takeBlock();
  Result<Statement> takeIf(int line);
  Result<Statement> takeFor(int line);
  Result<Statement> takeSet(int line);
  Result<Statement> takeMacro(int line);
  Status takeEnd(std::string_view name);
  /// a, b.c, (d, e): what is assigned.
  Result<std::vector<std::string>> takeTargets();

  Result<ExpressionPtr> takeExpression() { return takeChoice(); }
  Result<ExpressionPtr> takeTuple();
  Result<ExpressionPtr> takeChoice();
  Result<ExpressionPtr> takeOr();
  Result<ExpressionPtr> takeAnd();
  Result<ExpressionPtr> takeNot();
  Result<ExpressionPtr> takeComparison();
  using Rule = Result<ExpressionPtr> (Parser::*)();
  Result<ExpressionPtr> takeLeft(Rule rule, std::initializer_list<std::string_view> signs);
  Result<ExpressionPtr> takeSum() { return takeLeft(&Parser::takeConcat, {"+", "-"}); }
  Result<ExpressionPtr> takeConcat() { return takeLeft(&Parser::takeProduct, {"~"}); }
  Result<ExpressionPtr> takeProduct() {
    return takeLeft(&Parser::takePower, {"*", "/", "//", "%"});
  }
  Result<ExpressionPtr> takePower() { return takeLeft(&Parser::takeFiltered, {"**"}); }
  Result<ExpressionPtr> takeFiltered();
  Result<ExpressionPtr> takeUnary();
  Result<ExpressionPtr> takePrimary();
  Result<ExpressionPtr> takePostfix(ExpressionPtr x);
  Result<ExpressionPtr> takeIndex(ExpressionPtr x);
  Result<ExpressionPtr> takeTest(ExpressionPtr x);
  Status takeArguments(Expression &call);
  Result<ExpressionPtr> takeDict();

  ExpressionPtr make(Kind kind, std::string text = "") const {
    return std::make_unique<Expression>(
        Expression{.kind = kind, .line = word().line, .text = std::move(text)});
  }
  ExpressionPtr combine(Kind kind, std::string text, ExpressionPtr a, ExpressionPtr b) const {
    ExpressionPtr x = make(kind, std::move(text));
    x->operands.push_back(std::move(a));
    x->operands.push_back(std::move(b));
    return x;
  }

  std::vector<Part> parts;
  size_t part = 0, position = 0;
  int depth = 0;
};

//===--- Statements ---===//

Result<Body> Parser::takeBody(std::initializer_list<std::string_view> ends) {
  if (++depth > kMostParseDepth) {
    return templateError(parts[std::min(part, parts.size() - 1)].line, "it is nested too deeply");
  }
  Body body;
  while (part < parts.size()) {
    const Part &now = parts[part];
    if (now.kind == Part::Kind::Text) {
      body.push_back({.kind = Statement::Kind::Write,
                      .line = now.line,
                      .literal = Text::ofTemplate(now.text)});
      ++part;
      continue;
    }
    position = 0;
    if (now.kind == Part::Kind::Print) {
      Statement print{.kind = Statement::Kind::Print, .line = now.line};
      TENON_ASSIGN(print.value, takeTuple());
      TENON_TRY(expectEnd());
      body.push_back(std::move(print));
      continue;
    }
    if (std::ranges::any_of(ends, [&](std::string_view end) { return isName(end); })) {
      --depth;
      return body;
    }
    // What transformers marks for training is written as any text.
    if (isName("generation") || isName("endgeneration")) {
      ++position;
      TENON_TRY(expectEnd());
      continue;
    }
    TENON_ASSIGN(Statement statement, takeBlock());
    body.push_back(std::move(statement));
  }
  if (ends.size() != 0) {
    return templateError(parts.empty() ? 1 : parts.back().line,
                         strCat("the template ends where '", *ends.begin(), "' is expected"));
  }
  --depth;
  return body;
}

Result<Statement> Parser::takeBlock() {
  int line = word().line;
  if (takeName("if")) {
    return takeIf(line);
  }
  if (takeName("for")) {
    return takeFor(line);
  }
  if (takeName("set")) {
    return takeSet(line);
  }
  if (takeName("macro")) {
    return takeMacro(line);
  }
  if (isName("break") || isName("continue")) {
    Statement jump{.kind = isName("break") ? Statement::Kind::Break : Statement::Kind::Continue,
                   .line = line};
    ++position;
    TENON_TRY(expectEnd());
    return jump;
  }
  return templateError(line, strCat("the statement '", word().text, "' is not supported"));
}

Status Parser::takeEnd(std::string_view name) {
  if (!takeName(name)) {
    return unexpected(strCat("'", name, "'"));
  }
  return expectEnd();
}

Result<Statement> Parser::takeIf(int line) {
  if (++depth > kMostParseDepth) {
    return templateError(line, "too much is nested");
  }
  Statement statement{.kind = Statement::Kind::If, .line = line};
  TENON_ASSIGN(statement.value, takeTuple());
  TENON_TRY(expectEnd());
  TENON_ASSIGN(statement.body, takeBody({"elif", "else", "endif"}));
  int next = word().line;
  if (takeName("elif")) {
    TENON_ASSIGN(Statement otherwise, takeIf(next));
    statement.otherwise.push_back(std::move(otherwise));
    --depth;
    return statement;
  }
  if (takeName("else")) {
    TENON_TRY(expectEnd());
    TENON_ASSIGN(statement.otherwise, takeBody({"endif"}));
  }
  TENON_TRY(takeEnd("endif"));
  --depth;
  return statement;
}

Result<std::vector<std::string>> Parser::takeTargets() {
  std::vector<std::string> names;
  bool isBracketed = takeSign("(");
  do {
    TENON_ASSIGN(std::string name, takeIdentifier());
    if (takeSign(".")) {
      TENON_ASSIGN(std::string attribute, takeIdentifier());
      name += strCat('.', attribute);
    }
    names.push_back(std::move(name));
  } while (takeSign(",") && !isSign(")"));
  if (isBracketed) {
    TENON_TRY(expectSign(")"));
  }
  return names;
}

Result<Statement> Parser::takeFor(int line) {
  Statement statement{.kind = Statement::Kind::For, .line = line};
  TENON_ASSIGN(statement.names, takeTargets());
  if (!takeName("in")) {
    return unexpected("'in'");
  }
  // Not a choice: its `if` is the loop's.
  TENON_ASSIGN(statement.value, takeOr());
  if (takeName("if")) {
    TENON_ASSIGN(statement.condition, takeExpression());
  }
  if (isName("recursive")) {
    return templateError(line, "recursive loops are not supported");
  }
  TENON_TRY(expectEnd());
  TENON_ASSIGN(statement.body, takeBody({"else", "endfor"}));
  if (takeName("else")) {
    TENON_TRY(expectEnd());
    TENON_ASSIGN(statement.otherwise, takeBody({"endfor"}));
  }
  TENON_TRY(takeEnd("endfor"));
  return statement;
}

Result<Statement> Parser::takeSet(int line) {
  Statement statement{.kind = Statement::Kind::Set, .line = line};
  TENON_ASSIGN(statement.names, takeTargets());
  if (takeSign("=")) {
    TENON_ASSIGN(statement.value, takeTuple());
    TENON_TRY(expectEnd());
    return statement;
  }
  if (isSign("|")) {
    return templateError(line, "a filter of a set block is not supported");
  }
  TENON_TRY(expectEnd());
  TENON_ASSIGN(statement.body, takeBody({"endset"}));
  TENON_TRY(takeEnd("endset"));
  return statement;
}

Result<Statement> Parser::takeMacro(int line) {
  Statement statement{.kind = Statement::Kind::Macro, .line = line};
  TENON_ASSIGN(statement.text, takeIdentifier());
  TENON_TRY(expectSign("("));
  while (!takeSign(")")) {
    NamedExpression parameter;
    TENON_ASSIGN(parameter.name, takeIdentifier());
    if (takeSign("=")) {
      TENON_ASSIGN(parameter.value, takeExpression());
    }
    statement.parameters.push_back(std::move(parameter));
    if (!isSign(")")) {
      TENON_TRY(expectSign(","));
    }
  }
  TENON_TRY(expectEnd());
  TENON_ASSIGN(statement.body, takeBody({"endmacro"}));
  TENON_TRY(takeEnd("endmacro"));
  return statement;
}

//===--- Expressions ---===//

/// a, b without brackets is a tuple.
Result<ExpressionPtr> Parser::takeTuple() {
  TENON_ASSIGN(ExpressionPtr x, takeExpression());
  if (!isSign(",")) {
    return x;
  }
  ExpressionPtr tuple = make(Kind::Tuple);
  tuple->operands.push_back(std::move(x));
  while (takeSign(",") && word().kind != Word::Kind::End) {
    TENON_ASSIGN(ExpressionPtr next, takeExpression());
    tuple->operands.push_back(std::move(next));
  }
  return tuple;
}

Result<ExpressionPtr> Parser::takeChoice() {
  if (++depth > kMostParseDepth) {
    return templateError(word().line, "it is nested too deeply");
  }
  TENON_ASSIGN(ExpressionPtr x, takeOr());
  while (takeName("if")) {
    TENON_ASSIGN(ExpressionPtr condition, takeOr());
    ExpressionPtr otherwise;
    if (takeName("else")) {
      TENON_ASSIGN(otherwise, takeChoice());
    }
    x = combine(Kind::Choice, "", std::move(x), std::move(condition));
    x->operands.push_back(std::move(otherwise));
  }
  --depth;
  return x;
}

Result<ExpressionPtr> Parser::takeOr() {
  TENON_ASSIGN(ExpressionPtr x, takeAnd());
  while (takeName("or")) {
    TENON_ASSIGN(ExpressionPtr y, takeAnd());
    x = combine(Kind::Binary, "or", std::move(x), std::move(y));
  }
  return x;
}

Result<ExpressionPtr> Parser::takeAnd() {
  TENON_ASSIGN(ExpressionPtr x, takeNot());
  while (takeName("and")) {
    TENON_ASSIGN(ExpressionPtr y, takeNot());
    x = combine(Kind::Binary, "and", std::move(x), std::move(y));
  }
  return x;
}

Result<ExpressionPtr> Parser::takeNot() {
  if (++depth > kMostParseDepth) {
    return templateError(word().line, "it is nested too deeply");
  }
  if (isName("not") && !(nextWord().kind == Word::Kind::Name && nextWord().text == "in")) {
    ++position;
    ExpressionPtr x = make(Kind::Unary, "not");
    TENON_ASSIGN(ExpressionPtr y, takeNot());
    x->operands.push_back(std::move(y));
    --depth;
    return x;
  }
  --depth;
  return takeComparison();
}

/// a < b < c is a < b and b < c; b is evaluated twice, which changes nothing here.
Result<ExpressionPtr> Parser::takeComparison() {
  TENON_ASSIGN(ExpressionPtr x, takeSum());
  bool isFirst = true;
  while (true) {
    std::string sign;
    for (std::string_view known : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (sign.empty() && takeSign(known)) {
        sign = known;
      }
    }
    if (sign.empty() && takeName("in")) {
      sign = "in";
    } else if (sign.empty() && isName("not") && nextWord().text == "in") {
      position += 2;
      sign = "not in";
    }
    if (sign.empty()) {
      return x;
    }
    if (!isFirst) {
      return templateError(word().line, "a chain of comparisons is not supported");
    }
    isFirst = false;
    TENON_ASSIGN(ExpressionPtr y, takeSum());
    x = combine(Kind::Binary, sign, std::move(x), std::move(y));
  }
}

Result<ExpressionPtr> Parser::takeLeft(Rule rule, std::initializer_list<std::string_view> signs) {
  TENON_ASSIGN(ExpressionPtr x, (this->*rule)());
  while (true) {
    const std::string_view *sign =
        std::ranges::find_if(signs, [&](std::string_view known) { return isSign(known); });
    if (sign == signs.end()) {
      return x;
    }
    ++position;
    TENON_ASSIGN(ExpressionPtr y, (this->*rule)());
    x = combine(Kind::Binary, std::string(*sign), std::move(x), std::move(y));
  }
}

Result<ExpressionPtr> Parser::takeFiltered() {
  TENON_ASSIGN(ExpressionPtr x, takeUnary());
  while (true) {
    if (takeSign("|")) {
      TENON_ASSIGN(std::string name, takeIdentifier());
      ExpressionPtr filter = make(Kind::Filter, std::move(name));
      filter->operands.push_back(std::move(x));
      if (takeSign("(")) {
        TENON_TRY(takeArguments(*filter));
      }
      x = std::move(filter);
    } else if (takeName("is")) {
      TENON_ASSIGN(x, takeTest(std::move(x)));
    } else if (isSign("(") || isSign(".") || isSign("[")) {
      TENON_ASSIGN(x, takePostfix(std::move(x)));
    } else {
      return x;
    }
  }
}

Result<ExpressionPtr> Parser::takeTest(ExpressionPtr x) {
  bool isNegated = takeName("not");
  TENON_ASSIGN(std::string name, takeIdentifier());
  ExpressionPtr test = make(Kind::Test, std::move(name));
  test->operands.push_back(std::move(x));
  if (takeSign("(")) {
    TENON_TRY(takeArguments(*test));
  } else if (word().kind == Word::Kind::String || word().kind == Word::Kind::Integer ||
             word().kind == Word::Kind::Float || isSign("[") || isSign("{") ||
             (word().kind == Word::Kind::Name && !isName("and") && !isName("or") &&
              !isName("else") && !isName("if") && !isName("is") && !isName("in") &&
              !isName("not"))) {
    NamedExpression argument;
    TENON_ASSIGN(argument.value, takePrimary());
    TENON_ASSIGN(argument.value, takePostfix(std::move(argument.value)));
    test->arguments.push_back(std::move(argument));
  }
  if (!isNegated) {
    return test;
  }
  ExpressionPtr negation = make(Kind::Unary, "not");
  negation->operands.push_back(std::move(test));
  return negation;
}

Result<ExpressionPtr> Parser::takeUnary() {
  if (++depth > kMostParseDepth) {
    return templateError(word().line, "it is nested too deeply");
  }
  if (isSign("-") || isSign("+")) {
    ExpressionPtr x = make(Kind::Unary, word().text);
    ++position;
    TENON_ASSIGN(ExpressionPtr y, takeUnary());
    x->operands.push_back(std::move(y));
    --depth;
    return x;
  }
  TENON_ASSIGN(ExpressionPtr x, takePrimary());
  --depth;
  return takePostfix(std::move(x));
}

Result<ExpressionPtr> Parser::takePrimary() {
  const Word now = word();
  ExpressionPtr x = make(Kind::Constant);
  switch (now.kind) {
  case Word::Kind::Integer: {
    int64_t value = 0;
    if (std::from_chars(now.text.data(), now.text.data() + now.text.size(), value).ec !=
        std::errc()) {
      return templateError(now.line, "a number is too large");
    }
    x->constant = Value(value);
    ++position;
    return x;
  }
  case Word::Kind::Float: {
    double value = 0;
    std::from_chars(now.text.data(), now.text.data() + now.text.size(), value);
    x->constant = Value(value);
    ++position;
    return x;
  }
  case Word::Kind::String: {
    Text text;
    while (word().kind == Word::Kind::String) { // neighbours are one
      text.append(Text::ofTemplate(word().text));
      ++position;
    }
    x->constant = Value(std::move(text));
    return x;
  }
  case Word::Kind::Name: {
    ++position;
    bool isTrue = now.text == "true" || now.text == "True";
    if (isTrue || now.text == "false" || now.text == "False") {
      x->constant = Value(isTrue);
      return x;
    }
    if (now.text == "none" || now.text == "None") {
      return x;
    }
    x->kind = Kind::Name;
    x->text = now.text;
    return x;
  }
  default:
    break;
  }
  if (takeSign("(")) {
    ExpressionPtr tuple = make(Kind::Tuple);
    bool isTuple = isSign(")");
    while (!isSign(")")) {
      TENON_ASSIGN(ExpressionPtr next, takeExpression());
      tuple->operands.push_back(std::move(next));
      if (!takeSign(",")) {
        break;
      }
      isTuple = true;
    }
    TENON_TRY(expectSign(")"));
    return isTuple ? std::move(tuple) : std::move(tuple->operands.front());
  }
  if (takeSign("[")) {
    ExpressionPtr list = make(Kind::List);
    while (!isSign("]")) {
      TENON_ASSIGN(ExpressionPtr next, takeExpression());
      list->operands.push_back(std::move(next));
      if (!takeSign(",")) {
        break;
      }
    }
    TENON_TRY(expectSign("]"));
    return list;
  }
  if (takeSign("{")) {
    return takeDict();
  }
  return unexpected("an expression");
}

Result<ExpressionPtr> Parser::takeDict() {
  ExpressionPtr dict = make(Kind::Dict);
  while (!isSign("}")) {
    TENON_ASSIGN(ExpressionPtr key, takeExpression());
    TENON_TRY(expectSign(":"));
    TENON_ASSIGN(ExpressionPtr value, takeExpression());
    dict->operands.push_back(std::move(key));
    dict->operands.push_back(std::move(value));
    if (!takeSign(",")) {
      break;
    }
  }
  TENON_TRY(expectSign("}"));
  return dict;
}

Status Parser::takeArguments(Expression &call) {
  while (!takeSign(")")) {
    if (isSign("*") || isSign("**")) {
      return templateError(word().line, "unpacking a list into arguments is not supported");
    }
    NamedExpression argument;
    if (word().kind == Word::Kind::Name && nextWord().kind == Word::Kind::Sign &&
        nextWord().text == "=") {
      argument.name = word().text;
      position += 2;
    }
    TENON_ASSIGN(argument.value, takeExpression());
    call.arguments.push_back(std::move(argument));
    if (!isSign(")")) {
      TENON_TRY(expectSign(","));
    }
  }
  return Status::ok();
}

Result<ExpressionPtr> Parser::takePostfix(ExpressionPtr x) {
  while (true) {
    if (takeSign(".")) {
      ExpressionPtr attribute = make(Kind::Attribute, word().text);
      if (word().kind != Word::Kind::Name && word().kind != Word::Kind::Integer) {
        return unexpected("a name");
      }
      ++position;
      attribute->operands.push_back(std::move(x));
      x = std::move(attribute);
    } else if (takeSign("[")) {
      TENON_ASSIGN(x, takeIndex(std::move(x)));
    } else if (takeSign("(")) {
      ExpressionPtr call = make(Kind::Call);
      call->operands.push_back(std::move(x));
      TENON_TRY(takeArguments(*call));
      x = std::move(call);
    } else {
      return x;
    }
  }
}

Result<ExpressionPtr> Parser::takeIndex(ExpressionPtr x) {
  ExpressionPtr bounds[3];
  bool isSlice = false;
  for (int i = 0; i < 3 && !isSign("]"); ++i) {
    if (!isSign(":")) {
      TENON_ASSIGN(bounds[i], takeExpression());
    }
    if (!takeSign(":")) {
      break;
    }
    isSlice = true;
  }
  TENON_TRY(expectSign("]"));
  ExpressionPtr index = make(isSlice ? Kind::Slice : Kind::Index);
  index->operands.push_back(std::move(x));
  if (!isSlice && !bounds[0]) {
    return unexpected("an index");
  }
  for (int i = 0; i < (isSlice ? 3 : 1); ++i) {
    index->operands.push_back(std::move(bounds[i]));
  }
  return index;
}

} // namespace

Result<Body> parseTemplate(std::string_view source) {
  TENON_ASSIGN(std::vector<Part> parts, splitTemplate(source));
  return Parser(std::move(parts)).parse();
}

} // namespace tenon::generate::jinja
