// Proves comparisons by interval bounds of the simplified difference; SymbolConstraints.cpp turns
// what cannot be proved into constraints. Relies on tn::simplify giving null where int64 arithmetic
// would overflow.
#include "compiler/frontend/common/Symbols.h"

#include "compiler/graph/Steps.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tenon::frontend {

AffineExpr Symbols::constant(int64_t value) const { return getAffineConstantExpr(value, context); }

bool Symbols::contains(StringRef name) const {
  return llvm::any_of(list.symbols(),
                      [&](const tn::Symbol &symbol) { return symbol.name == name; });
}

AffineExpr Symbols::get(StringRef name, int64_t min, int64_t max, bool declared, uint32_t dim) {
  unsigned index = list.add(name, min, max);
  if (index == entries.size()) {
    entries.push_back({.declared = declared, .dim = dim});
  }
  return getAffineSymbolExpr(index, context);
}

AffineExpr Symbols::addDataDependent(StringRef name, ArrayRef<AffineExpr> most) {
  std::string unique = name.str();
  while (contains(unique)) {
    unique += "'";
  }
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (AffineExpr bound : most) {
    limit = std::min(limit, std::max<int64_t>(bounds(bound).max, 0));
  }
  AffineExpr symbol = get(unique, 0, limit, /*declared=*/false);
  entries.back().isDataDependent = true;
  entries.back().most = tn::Dims(most);
  return symbol;
}

bool Symbols::dependsOnData(AffineExpr expression) const {
  for (auto [index, entry] : llvm::enumerate(entries)) {
    if (entry.isDataDependent && expression.isFunctionOfSymbol(index)) {
      return true;
    }
  }
  return false;
}

bool Symbols::isBatch(AffineExpr expression) const {
  AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(canonical(expression));
  const Entry *entry = symbol ? &entries[symbol.getPosition()] : nullptr;
  return entry && entry->dim == 0 && !entry->declared && !entry->derived &&
         !entry->isDataDependent;
}

void Symbols::store(ModuleOp module) const {
  list.store(module);
  tn::storeConstraints(module, constraints);
}

AffineExpr Symbols::canonical(AffineExpr expression) const {
  if (!expression || replacedCount == 0) {
    return expression;
  }
  SmallVector<AffineExpr> values;
  for (auto [index, entry] : llvm::enumerate(entries)) {
    values.push_back(entry.replacement ? entry.replacement : getAffineSymbolExpr(index, context));
  }
  AffineExpr replaced = tn::simplify(expression.replaceSymbols(values));
  return replaced && hasSteps ? tn::withoutDecidedSteps(replaced, list) : replaced;
}

tn::Dims Symbols::canonical(ArrayRef<AffineExpr> dims) const {
  tn::Dims result;
  for (AffineExpr dim : dims) {
    result.push_back(canonical(dim));
  }
  return result;
}

tn::SymbolList::Range Symbols::bounds(AffineExpr expression) const {
  return list.bounds(canonical(expression));
}

std::optional<bool> Symbols::compare(AffineExpr a, Comparison op, AffineExpr b) const {
  tn::SymbolList::Range left = bounds(a);
  tn::SymbolList::Range right = bounds(b);
  AffineExpr difference = subtractSizes(canonical(a), canonical(b));
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

AffineExpr Symbols::holdSteps(AffineExpr expression) {
  hasSteps |= expression && !tn::stepsOf(expression).empty();
  return expression;
}

AffineExpr Symbols::lesser(AffineExpr a, AffineExpr b) {
  if (!a || !b) {
    return AffineExpr();
  }
  std::optional<bool> known = compare(a, Comparison::LessOrEqual, b);
  return known ? (*known ? a : b) : holdSteps(tn::smallerDim(list, canonical(a), canonical(b)));
}

AffineExpr Symbols::greater(AffineExpr a, AffineExpr b) {
  if (!a || !b) {
    return AffineExpr();
  }
  std::optional<bool> known = compare(a, Comparison::LessOrEqual, b);
  return known ? (*known ? b : a) : holdSteps(tn::largerDim(list, canonical(a), canonical(b)));
}

AffineExpr Symbols::step(AffineExpr expression) {
  return holdSteps(tn::stepDim(list, canonical(expression)));
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
  if (!a || !b || symbols.bounds(b).min < 1) {
    return nullptr;
  }
  if (symbols.bounds(a).max <= 0) {
    AffineExpr zero = symbols.constant(0);
    AffineExpr negated = subtractSizes(zero, a);
    return negated ? subtractSizes(zero, tn::simplify(negated.floorDiv(b))) : nullptr;
  }
  return symbols.bounds(a).min < 0 ? nullptr : tn::simplify(a.floorDiv(b));
}

AffineExpr remainderSizes(const Symbols &symbols, AffineExpr a, AffineExpr b) {
  std::optional<int64_t> divisor = b ? tn::constantDim(b) : std::nullopt;
  if (a && divisor && *divisor > 0 && symbols.bounds(a).max <= 0) {
    // What lacks to the next multiple of the divisor.
    AffineExpr lacking = subtractSizes(symbols.constant(0), a);
    AffineExpr above =
        lacking ? divideSizes(symbols, addSizes(lacking, symbols.constant(*divisor - 1)), b)
                : nullptr;
    return subtractSizes(multiplySizes(above, b), lacking);
  }
  AffineExpr quotient = a && divisor && *divisor > 0      ? tn::simplify(a.floorDiv(*divisor))
                        : a && symbols.bounds(a).min >= 0 ? divideSizes(symbols, a, b)
                                                          : AffineExpr();
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
  for (AffineExpr &factor : above) {
    // Of constants what they have in common.
    for (AffineExpr &other : below) {
      std::optional<int64_t> times = tn::constantDim(factor), by = tn::constantDim(other);
      int64_t common = times && by && *times > 0 && *by > 0 ? std::gcd(*times, *by) : 1;
      if (common > 1) {
        factor = symbols.constant(*times / common);
        other = symbols.constant(*by / common);
      }
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

} // namespace tenon::frontend
