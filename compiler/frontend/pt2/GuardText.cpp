// A recursive-descent parser by Python's precedence.
#include "compiler/frontend/pt2/GuardText.h"

#include "support/text/Text.h"
#include "llvm/ADT/StringExtras.h"

#include <array>

using namespace mlir;

namespace tenon::pt2 {
namespace {

using Op = GuardTerm::Op;

constexpr unsigned kMaxGuardDepth = 64;
constexpr size_t kMaxGuardTerms = 2048;

struct NamedOp {
  std::string_view name;
  Op op;
};

constexpr std::array<NamedOp, 10> kGuardFunctions = {{
    {"min", Op::Min},
    {"max", Op::Max},
    {"math.trunc", Op::Trunc},
    {"int", Op::Trunc},
    {"math.floor", Op::Floor},
    {"math.ceil", Op::Ceil},
    {"math.sqrt", Op::SquareRoot},
    {"torch.sym_float", Op::ToReal},
    {"float", Op::ToReal},
    {"torch.sym_sqrt", Op::SquareRoot},
}};

class GuardParser {
public:
  GuardParser(StringRef text, const SizeOfGuard &sizes) : rest(text), sizeOf(sizes) {}

  std::optional<GuardTerm> parse(std::string &why) {
    GuardTerm guard = disjunction();
    rest = rest.ltrim();
    if (fault.empty() && !rest.empty()) {
      fail(strCat("'", std::string_view(rest.take_front(32)), "' is not understood"));
    }
    why = fault;
    return fault.empty() ? std::optional(std::move(guard)) : std::nullopt;
  }

private:
  /// Notes the first reason, and has the parser run to its end.
  GuardTerm fail(std::string why) {
    if (fault.empty()) {
      fault = std::move(why);
    }
    rest = "";
    return GuardTerm();
  }

  bool take(StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }

  /// The token where it is a word by itself.
  bool takeWord(StringRef word) {
    rest = rest.ltrim();
    StringRef after = rest;
    bool isWord = after.consume_front(word) &&
                  (after.empty() || !(llvm::isAlnum(after.front()) || after.front() == '_'));
    rest = isWord ? after : rest;
    return isWord;
  }

  static GuardTerm make(Op op, std::vector<GuardTerm> operands) {
    return {.op = op, .operands = std::move(operands)};
  }

  static GuardTerm integer(int64_t value) { return {.op = Op::Integer, .integer = value}; }
  static GuardTerm negated(GuardTerm term) {
    return make(Op::Multiply, {integer(-1), std::move(term)});
  }

  GuardTerm chain(StringRef word, Op op, GuardTerm (GuardParser::*operand)()) {
    GuardTerm first = (this->*operand)();
    while (takeWord(word)) {
      GuardTerm next = (this->*operand)();
      first = make(op, {std::move(first), std::move(next)});
    }
    return first;
  }

  GuardTerm disjunction() { return chain("or", Op::Or, &GuardParser::conjunction); }
  GuardTerm conjunction() { return chain("and", Op::And, &GuardParser::inversion); }

  GuardTerm inversion() {
    return takeWord("not") ? make(Op::Not, {nested(&GuardParser::inversion)}) : comparison();
  }

  GuardTerm nested(GuardTerm (GuardParser::*part)()) {
    if (++depth > kMaxGuardDepth || ++terms > kMaxGuardTerms) {
      return fail("it is too long or nested too deeply");
    }
    GuardTerm result = (this->*part)();
    --depth;
    return result;
  }

  GuardTerm comparison() {
    GuardTerm left = sum();
    for (auto [token, op, swaps] :
         {std::tuple("==", Op::Equal, false), std::tuple("!=", Op::NotEqual, false),
          std::tuple("<=", Op::LessOrEqual, false), std::tuple(">=", Op::LessOrEqual, true),
          std::tuple("<", Op::Less, false), std::tuple(">", Op::Less, true)}) {
      if (take(token)) {
        GuardTerm right = sum();
        return swaps ? make(op, {std::move(right), std::move(left)})
                     : make(op, {std::move(left), std::move(right)});
      }
    }
    return left;
  }

  GuardTerm sum() {
    GuardTerm total = product();
    while (true) {
      bool isMinus = take("-");
      if (!isMinus && !take("+")) {
        return total;
      }
      GuardTerm next = product();
      total = make(Op::Add, {std::move(total), isMinus ? negated(std::move(next)) : next});
    }
  }

  GuardTerm product() {
    GuardTerm total = sign();
    while (true) {
      rest = rest.ltrim();
      std::optional<Op> op = take("//")  ? std::optional(Op::FloorDivide)
                             : take("/") ? std::optional(Op::Divide)
                             : take("%") ? std::optional(Op::Mod)
                             : take("*") ? std::optional(Op::Multiply)
                                         : std::nullopt;
      if (!op) {
        return total;
      }
      GuardTerm next = sign();
      total = make(*op, {std::move(total), std::move(next)});
    }
  }

  GuardTerm sign() {
    if (take("-")) {
      return negated(nested(&GuardParser::sign));
    }
    return power();
  }

  GuardTerm power() {
    GuardTerm base = nested(&GuardParser::primary);
    if (!take("**")) {
      return base;
    }
    GuardTerm exponent = nested(&GuardParser::sign);
    return make(Op::Power, {std::move(base), std::move(exponent)});
  }

  GuardTerm primary() {
    rest = rest.ltrim();
    if (take("(")) {
      GuardTerm inner = disjunction();
      return take(")") ? inner : fail("a bracket is not closed");
    }
    if (!rest.empty() && (llvm::isDigit(rest.front()) || rest.front() == '.')) {
      return number();
    }
    if (takeWord("True") || takeWord("False")) {
      return fail("it contains a truth value");
    }
    if (rest.starts_with("L[")) {
      return size();
    }
    return call();
  }

  GuardTerm number() {
    StringRef digits =
        rest.take_while([](char c) { return llvm::isAlnum(c) || c == '.' || c == '_'; });
    StringRef behind = rest.drop_front(digits.size());
    if (digits.contains('e') && !behind.empty() && (behind[0] == '-' || behind[0] == '+')) {
      StringRef exponent = behind.drop_front().take_while(llvm::isDigit);
      digits = rest.take_front(digits.size() + 1 + exponent.size());
    }
    rest = rest.drop_front(digits.size());
    GuardTerm result;
    if (!digits.getAsInteger(10, result.integer)) {
      return result;
    }
    result.op = Op::Real;
    return !digits.getAsDouble(result.real)
               ? result
               : fail(strCat("'", std::string_view(digits), "' is not a number"));
  }

  GuardTerm call() {
    StringRef name =
        rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    rest = rest.drop_front(name.size());
    const NamedOp *found = llvm::find_if(
        kGuardFunctions, [&](const NamedOp &each) { return name == StringRef(each.name); });
    if (found == kGuardFunctions.end() || !take("(")) {
      return fail(name.empty()
                      ? strCat("it breaks off, or '", std::string_view(rest.take_front(16)),
                               "' is not understood")
                      : strCat("'", std::string_view(name), "' is not known"));
    }
    std::vector<GuardTerm> arguments = {disjunction()};
    while (take(",")) {
      arguments.push_back(disjunction());
    }
    bool isExtreme = found->op == Op::Min || found->op == Op::Max;
    if (!take(")") || (arguments.size() != 1 && !isExtreme)) {
      return fail(strCat("the call of '", std::string_view(name), "' is not understood"));
    }
    GuardTerm result = std::move(arguments.front());
    if (!isExtreme) {
      return make(found->op, {std::move(result)});
    }
    for (GuardTerm &other : llvm::drop_begin(arguments)) {
      result = make(found->op, {std::move(result), std::move(other)});
    }
    return result;
  }

  /// "L['x'][0]" with what follows it.
  GuardTerm size() {
    StringRef whole = rest;
    rest = rest.drop_front(1);
    GuardedSize named;
    while (take("[")) {
      StringRef quote = rest.take_front(1);
      bool isText = quote == "'" || quote == "\"";
      StringRef key = isText ? rest.drop_front().take_until([&](char c) { return c == quote[0]; })
                             : rest.take_until([](char c) { return c == ']'; });
      rest = rest.drop_front(std::min(rest.size(), key.size() + (isText ? 2 : 0)));
      if (!take("]")) {
        return fail("the name of an input is not closed");
      }
      named.path.push_back(key.str());
    }
    if (take(".size()[")) {
      StringRef dim = rest.take_while(llvm::isDigit);
      rest = rest.drop_front(dim.size());
      if (dim.getAsInteger(10, named.dim) || !take("]")) {
        return fail("the number of a dimension is not understood");
      }
    } else if (rest.starts_with(".")) {
      StringRef what = rest.take_until([](char c) { return c == ' '; });
      return fail(strCat("it asks for '", std::string_view(what), "' of an input"));
    }
    AffineExpr value = sizeOf(named);
    if (!value) {
      return fail(strCat("'", std::string_view(whole.drop_back(rest.size())),
                         "' is not a dimension of an input"));
    }
    std::optional<int64_t> constant = tn::constantDim(value);
    return constant ? integer(*constant) : GuardTerm{.op = Op::Size, .size = value};
  }

  StringRef rest;
  const SizeOfGuard &sizeOf;
  std::string fault;
  unsigned depth = 0;
  size_t terms = 0;
};

} // namespace

std::optional<GuardTerm> parseGuard(std::string_view text, const SizeOfGuard &sizeOf,
                                    std::string &why) {
  return GuardParser(StringRef(text), sizeOf).parse(why);
}

} // namespace tenon::pt2
