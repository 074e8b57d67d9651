// Proves comparisons by interval bounds of the simplified difference.
// Relies on tn::simplify giving null where int64 arithmetic would overflow.
#include "compiler/frontend/onnx/Symbols.h"

using namespace mlir;

namespace tenon::onnx {

AffineExpr Symbols::constant(int64_t value) const { return getAffineConstantExpr(value, context); }

bool Symbols::contains(StringRef name) const {
  return llvm::any_of(symbols, [&](const tn::Symbol &symbol) { return symbol.name == name; });
}

AffineExpr Symbols::get(StringRef name, int64_t min, int64_t max, bool declared) {
  for (auto [index, symbol] : llvm::enumerate(symbols)) {
    if (symbol.name == name) {
      return getAffineSymbolExpr(index, context);
    }
  }
  symbols.push_back({name.str(), min, max});
  declaredByUser.push_back(declared);
  list.add(name, min, max);
  return getAffineSymbolExpr(symbols.size() - 1, context);
}

void Symbols::rebuild() {
  list = tn::SymbolList();
  for (const tn::Symbol &symbol : symbols) {
    list.add(symbol.name, symbol.min, symbol.max);
  }
}

tn::SymbolList::Range Symbols::bounds(AffineExpr expression) const {
  return list.bounds(expression);
}

std::optional<bool> Symbols::compare(AffineExpr a, Comparison op, AffineExpr b) const {
  tn::SymbolList::Range left = bounds(a);
  tn::SymbolList::Range right = bounds(b);
  AffineExpr difference = subtractSizes(a, b);
  if (difference) {
    tn::SymbolList::Range range = bounds(difference);
    // The difference of equal expressions is exact where the intervals of both sides are not.
    if (range.min > 0) {
      left = range, right = {0, 0};
    } else if (range.max < 0 || range.min == range.max) {
      left = range, right = {0, 0};
    } else if (range.max <= 0 && op == Comparison::LessOrEqual) {
      return true;
    } else if (range.min >= 0 && op == Comparison::Less) {
      return false;
    }
  }
  switch (op) {
  case Comparison::Equal:
    if (left.min == left.max && right.min == right.max && left.min == right.min) {
      return true;
    }
    return left.max < right.min || right.max < left.min ? std::optional<bool>(false) : std::nullopt;
  case Comparison::Less:
    if (left.max < right.min) {
      return true;
    }
    return left.min >= right.max ? std::optional<bool>(false) : std::nullopt;
  case Comparison::LessOrEqual:
    if (left.max <= right.min) {
      return true;
    }
    return left.min > right.max ? std::optional<bool>(false) : std::nullopt;
  }
  return std::nullopt;
}

bool Symbols::lowerMaximum(AffineExpr a, int64_t limit) {
  AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(a);
  int64_t offset = 0;
  if (AffineBinaryOpExpr sum = dyn_cast<AffineBinaryOpExpr>(a);
      sum && a.getKind() == AffineExprKind::Add) {
    AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(sum.getRHS());
    symbol = dyn_cast<AffineSymbolExpr>(sum.getLHS());
    offset = constant ? constant.getValue() : 0;
    if (!constant) {
      return false;
    }
  }
  if (!symbol || declaredByUser[symbol.getPosition()]) {
    return false;
  }
  tn::Symbol &entry = symbols[symbol.getPosition()];
  if (limit - offset < entry.min) {
    return false;
  }
  entry.max = std::min(entry.max, limit - offset);
  rebuild();
  return true;
}

bool Symbols::atMost(AffineExpr a, AffineExpr b) {
  std::optional<bool> known = compare(a, Comparison::LessOrEqual, b);
  if (known) {
    return *known;
  }
  std::optional<int64_t> limit = tn::constantDim(b);
  return limit && std::abs(*limit) < (int64_t{1} << 40) && lowerMaximum(a, *limit);
}

AffineMap symbolMap(ArrayRef<AffineExpr> expressions, MLIRContext *context) {
  unsigned count = 0;
  for (AffineExpr expression : expressions) {
    expression.walk([&](AffineExpr part) {
      if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part)) {
        count = std::max(count, symbol.getPosition() + 1);
      }
    });
  }
  return AffineMap::get(0, count, expressions, context);
}

namespace {

/// Larger constants do not go into symbolic expressions, whose construction is not
/// overflow-checked.
bool isSmall(std::optional<int64_t> value) {
  return !value || (*value > -(int64_t{1} << 40) && *value < (int64_t{1} << 40));
}

} // namespace

AffineExpr addSizes(AffineExpr a, AffineExpr b) {
  if (!a || !b) {
    return nullptr;
  }
  std::optional<int64_t> left = tn::constantDim(a);
  std::optional<int64_t> right = tn::constantDim(b);
  int64_t sum = 0;
  if (left && right) {
    return llvm::AddOverflow(*left, *right, sum) ? nullptr
                                                 : getAffineConstantExpr(sum, a.getContext());
  }
  return isSmall(left) && isSmall(right) ? tn::simplify(a + b) : nullptr;
}

AffineExpr multiplySizes(AffineExpr a, AffineExpr b) {
  if (!a || !b) {
    return nullptr;
  }
  std::optional<int64_t> left = tn::constantDim(a);
  std::optional<int64_t> right = tn::constantDim(b);
  int64_t product = 0;
  if (left && right) {
    return llvm::MulOverflow(*left, *right, product)
               ? nullptr
               : getAffineConstantExpr(product, a.getContext());
  }
  return isSmall(left) && isSmall(right) ? tn::simplify(a * b) : nullptr;
}

AffineExpr subtractSizes(AffineExpr a, AffineExpr b) {
  if (!b) {
    return nullptr;
  }
  return addSizes(a, multiplySizes(b, getAffineConstantExpr(-1, b.getContext())));
}

AffineExpr divideSizes(const Symbols &symbols, AffineExpr a, AffineExpr b) {
  if (!a || !b || symbols.bounds(a).min < 0 || symbols.bounds(b).min < 1) {
    return nullptr;
  }
  return tn::simplify(a.floorDiv(b));
}

AffineExpr remainderSizes(const Symbols &symbols, AffineExpr a, AffineExpr b) {
  AffineExpr quotient = divideSizes(symbols, a, b);
  return quotient ? subtractSizes(a, multiplySizes(quotient, b)) : nullptr;
}

AffineExpr divideProducts(const Symbols &symbols, ArrayRef<AffineExpr> numerator,
                          ArrayRef<AffineExpr> denominator) {
  SmallVector<AffineExpr> above(numerator.begin(), numerator.end());
  SmallVector<AffineExpr> below;
  for (AffineExpr factor : denominator) {
    AffineExpr *match =
        llvm::find_if(above, [&](AffineExpr dim) { return tn::sameDim(dim, factor); });
    if (match != above.end()) {
      above.erase(match);
    } else {
      below.push_back(factor);
    }
  }
  AffineExpr dividend = symbols.constant(1);
  AffineExpr divisor = symbols.constant(1);
  for (AffineExpr factor : above) {
    dividend = multiplySizes(dividend, factor);
  }
  for (AffineExpr factor : below) {
    divisor = multiplySizes(divisor, factor);
  }
  if (divisor && tn::constantDim(divisor) == 1) {
    return dividend;
  }
  return divideSizes(symbols, dividend, divisor);
}

} // namespace tenon::onnx
