// Implements the three; an operand that is a sum stands in parentheses unless it is summed again.
#include "compiler/graph/DimText.h"

#include "compiler/graph/Steps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::tn {
namespace {

std::string operandText(AffineExpr expression, ArrayRef<Symbol> symbols) {
  std::string text = dimText(expression, symbols);
  bool isSum =
      expression.getKind() == AffineExprKind::Add || expression.getKind() == AffineExprKind::Mod;
  return isSum ? "(" + text + ")" : text;
}

std::string sumText(AffineBinaryOpExpr sum, ArrayRef<Symbol> symbols) {
  std::string left = dimText(sum.getLHS(), symbols);
  AffineExpr right = sum.getRHS();
  AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(right);
  if (constant && constant.getValue() < 0) {
    // The most negative number has no positive one.
    return left + " - " + std::to_string(0 - static_cast<uint64_t>(constant.getValue()));
  }
  AffineBinaryOpExpr product = dyn_cast<AffineBinaryOpExpr>(right);
  AffineConstantExpr factor = product && product.getKind() == AffineExprKind::Mul
                                  ? dyn_cast<AffineConstantExpr>(product.getRHS())
                                  : AffineConstantExpr();
  if (factor && factor.getValue() == -1) {
    return left + " - " + operandText(product.getLHS(), symbols);
  }
  return left + " + " + dimText(right, symbols);
}

} // namespace

std::string dimText(AffineExpr dim, ArrayRef<Symbol> symbols) {
  if (!dim) {
    return "?";
  }
  if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(dim)) {
    return std::to_string(constant.getValue());
  }
  if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(dim)) {
    unsigned index = symbol.getPosition();
    return index < symbols.size() ? symbols[index].name : "s" + std::to_string(index);
  }
  AffineBinaryOpExpr binary = dyn_cast<AffineBinaryOpExpr>(dim);
  if (!binary) {
    return "?";
  }
  bool isChoice = !stepsOf(dim).empty();
  if (std::optional<Extremum> choice =
          isChoice ? asExtremum(dim, SymbolList(symbols)) : std::nullopt) {
    return std::string(choice->isGreater ? "max(" : "min(") + dimText(choice->first, symbols) +
           ", " + dimText(choice->second, symbols) + ")";
  }
  if (binary.getKind() == AffineExprKind::Add) {
    return sumText(binary, symbols);
  }
  std::string left = operandText(binary.getLHS(), symbols);
  std::string right = operandText(binary.getRHS(), symbols);
  switch (binary.getKind()) {
  case AffineExprKind::Mul:
    return left + " * " + right;
  case AffineExprKind::Mod:
    return left + " mod " + right;
  case AffineExprKind::FloorDiv:
    return "floor(" + left + " / " + right + ")";
  default:
    return "ceil(" + left + " / " + right + ")";
  }
}

std::string constraintText(const Constraint &constraint, ArrayRef<Symbol> symbols) {
  std::string left = dimText(constraint.left, symbols), right = dimText(constraint.right, symbols);
  switch (constraint.kind) {
  case ConstraintKind::equal:
    return left + " is " + right;
  case ConstraintKind::equal_or_one:
    return left + " is " + right + " or 1";
  case ConstraintKind::divisible:
    return left + " is a multiple of " + right;
  case ConstraintKind::at_least:
    return left + " is at least " + right;
  }
  return {};
}

namespace {

/// Recursive descent over sums of products. A symbol's name may hold any character, so names are
/// tried before operators.
class DimParser {
public:
  DimParser(StringRef dimText, ArrayRef<Symbol> symbolList, MLIRContext *owner)
      : text(dimText), symbols(symbolList), context(owner) {}

  AffineExpr parse() {
    AffineExpr dim = sum();
    return text.ltrim().empty() ? dim : AffineExpr();
  }

private:
  bool take(StringRef token) {
    text = text.ltrim();
    return text.consume_front(token);
  }

  AffineExpr sum() {
    AffineExpr left = product();
    while (left) {
      if (take("+")) {
        left = addDims(left, product());
      } else if (take("-")) {
        left = addDims(left, multiplyDims(product(), getAffineConstantExpr(-1, context)));
      } else {
        break;
      }
    }
    return left;
  }

  AffineExpr product() {
    AffineExpr left = atom();
    while (left) {
      if (take("*")) {
        left = multiplyDims(left, atom());
      } else if (take("mod ")) {
        AffineExpr right = positiveConstant();
        left = right ? left % right : right;
      } else {
        break;
      }
    }
    return left;
  }

  AffineExpr positiveConstant() {
    AffineExpr dim = atom();
    return constantDim(dim).value_or(0) > 0 ? dim : AffineExpr();
  }

  AffineExpr atom() {
    if (depth == kDeepest) {
      return {};
    }
    ++depth;
    // Functions first: a symbol may have the name "m".
    AffineExpr dim;
    if (take("floor(")) {
      dim = quotient([](AffineExpr a, AffineExpr b) { return a.floorDiv(b); });
    } else if (take("ceil(")) {
      dim = quotient([](AffineExpr a, AffineExpr b) { return a.ceilDiv(b); });
    } else if (take("min(")) {
      dim = choice(smallerDim);
    } else if (take("max(")) {
      dim = choice(largerDim);
    } else if (take("(")) {
      dim = sum();
      dim = take(")") ? dim : AffineExpr();
    } else {
      dim = symbolOrNumber();
    }
    --depth;
    return dim;
  }

  template <typename Divide> AffineExpr quotient(const Divide &divide) {
    AffineExpr left = sum();
    AffineExpr right = left && take("/") ? positiveConstant() : AffineExpr();
    return right && take(")") ? simplify(divide(left, right)) : AffineExpr();
  }

  AffineExpr choice(AffineExpr (*choose)(const SymbolList &, AffineExpr, AffineExpr)) {
    AffineExpr first = sum();
    AffineExpr second = first && take(",") ? sum() : AffineExpr();
    return second && take(")") ? choose(SymbolList(symbols), first, second) : AffineExpr();
  }

  AffineExpr symbolOrNumber() {
    text = text.ltrim();
    const Symbol *longest = nullptr;
    for (const Symbol &symbol : symbols) {
      bool fits = !symbol.name.empty() && text.starts_with(symbol.name);
      longest = fits && (!longest || symbol.name.size() > longest->name.size()) ? &symbol : longest;
    }
    if (longest) {
      text = text.drop_front(longest->name.size());
      return getAffineSymbolExpr(longest - symbols.begin(), context);
    }
    int64_t number = 0;
    return text.consumeInteger(10, number) ? AffineExpr() : getAffineConstantExpr(number, context);
  }

  static constexpr int kDeepest = 100;

  StringRef text;
  ArrayRef<Symbol> symbols;
  MLIRContext *context;
  int depth = 0;
};

} // namespace

AffineExpr parseDim(StringRef text, ArrayRef<Symbol> symbols, MLIRContext *context) {
  AffineExpr dim = DimParser(text, symbols, context).parse();
  return dim ? simplify(dim) : dim;
}

std::string nameSymbols(StringRef text, ArrayRef<Symbol> symbols) {
  std::string named;
  auto isWord = [](char letter) { return llvm::isAlnum(letter) || letter == '_' || letter == '.'; };
  while (!text.empty()) {
    StringRef word = text.take_while(isWord);
    if (word.empty()) {
      named += text.front();
      text = text.drop_front();
      continue;
    }
    text = text.drop_front(word.size());
    unsigned index = 0;
    StringRef digits = word;
    bool isSymbol =
        digits.consume_front("s") && !digits.getAsInteger(10, index) && index < symbols.size();
    named += isSymbol ? symbols[index].name : word.str();
  }
  return named;
}

} // namespace tenon::tn
