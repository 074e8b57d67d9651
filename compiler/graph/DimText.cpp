// Implements the two; an operand that is a sum stands in parentheses unless it is summed again.
#include "compiler/graph/DimText.h"

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
