// A recursive-descent parser of nested calls.
#include "compiler/frontend/pt2/SizeText.h"

#include "compiler/frontend/common/Symbols.h"
#include "support/text/Text.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

constexpr unsigned kMaxDepth = 64;

class Parser {
public:
  using SymbolOf = std::function<AffineExpr(const std::string &)>;

  Parser(StringRef text, MLIRContext *owner, const SymbolOf &symbolOf)
      : whole(text), rest(text), context(owner), symbol(symbolOf) {}

  Result<AffineExpr> parse() {
    AffineExpr result = expression(0);
    if (isBad || !rest.trim().empty()) {
      return Status::error(
          ErrorId::Pt2BadGraph,
          strCat("'", std::string_view(whole), "' is not a size as PyTorch writes it"),
          "save the program again with torch.export.save");
    }
    return result;
  }

private:
  bool take(char letter) {
    rest = rest.ltrim();
    return rest.consume_front(StringRef(&letter, 1));
  }

  AffineExpr bad() {
    isBad = true;
    return AffineExpr();
  }

  AffineExpr expression(unsigned depth) {
    rest = rest.ltrim();
    StringRef name = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    rest = rest.drop_front(name.size());
    if (name.empty() || depth == kMaxDepth || !take('(')) {
      return bad();
    }
    if (name == "Symbol") {
      return symbolCall();
    }
    if (name == "Integer") {
      int64_t value = 0;
      StringRef digits = rest.take_until([](char c) { return c == ')'; });
      rest = rest.drop_front(digits.size());
      bool isNumber = !digits.trim().getAsInteger(10, value);
      return isNumber && take(')') ? getAffineConstantExpr(value, context) : bad();
    }
    SmallVector<AffineExpr> operands;
    while (!isBad && !take(')')) {
      operands.push_back(expression(depth + 1));
      take(',');
    }
    return isBad ? AffineExpr() : combine(name, operands);
  }

  AffineExpr symbolCall() {
    if (!take('\'')) {
      return bad();
    }
    StringRef name = rest.take_until([](char c) { return c == '\'' || c == '\\'; });
    rest = rest.drop_front(name.size());
    if (!take('\'') || name.empty()) {
      return bad();
    }
    // Assumptions follow, as "positive=True".
    StringRef assumptions = rest.take_until([](char c) { return c == ')'; });
    rest = rest.drop_front(assumptions.size());
    return take(')') ? symbol(name.str()) : bad();
  }

  AffineExpr combine(StringRef name, ArrayRef<AffineExpr> operands) {
    if (operands.empty() || llvm::any_of(operands, [](AffineExpr e) { return !e; })) {
      return AffineExpr();
    }
    AffineExpr result = operands[0];
    for (AffineExpr operand : operands.drop_front()) {
      bool isDivisor =
          isa<AffineConstantExpr>(operand) && cast<AffineConstantExpr>(operand).getValue() > 0;
      if (name == "Add") {
        result = frontend::addSizes(result, operand);
      } else if (name == "Mul") {
        result = frontend::multiplySizes(result, operand);
      } else if (name == "FloorDiv" && isDivisor) {
        result = tn::simplify(result.floorDiv(operand));
      } else if ((name == "Mod" || name == "PythonMod") && isDivisor) {
        result = tn::simplify(result % operand);
      } else {
        return AffineExpr();
      }
      if (!result) {
        return result;
      }
    }
    return result;
  }

  StringRef whole;
  StringRef rest;
  MLIRContext *context;
  const SymbolOf &symbol;
  bool isBad = false;
};

} // namespace

Result<AffineExpr> parseSize(std::string_view text, MLIRContext *context,
                             const std::function<AffineExpr(const std::string &)> &symbol) {
  return Parser(text, context, symbol).parse();
}

} // namespace tenon::pt2
