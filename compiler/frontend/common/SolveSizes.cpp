// Solves by substitution: an expression is linear in a symbol if it is the line through its values
// at 0 and 1. Relies on tn::simplify giving equal expressions one form, so that zero is the
// constant 0.
#include "compiler/frontend/common/SolveSizes.h"

#include <set>

using namespace mlir;

namespace tenon::frontend {
namespace {

/// Larger divisors than those of any chain of strided windows are not tried.
constexpr int64_t kLargestDivisor = 4096;
/// Remainders that are tried for each divisor.
constexpr int64_t kMaxRemainders = 8;

AffineExpr with(AffineExpr expression, unsigned symbol, AffineExpr value) {
  return tn::simplify(
      expression.replace(getAffineSymbolExpr(symbol, expression.getContext()), value));
}

bool isZero(AffineExpr expression) { return expression && tn::constantDim(expression) == 0; }

/// All symbols, and all constants that something is divided by, in ascending order.
void collect(AffineExpr expression, std::set<unsigned> &symbols, std::set<int64_t> &divisors) {
  expression.walk([&](AffineExpr part) {
    if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part)) {
      symbols.insert(symbol.getPosition());
    }
    AffineBinaryOpExpr division = dyn_cast<AffineBinaryOpExpr>(part);
    bool divides =
        division && part.getKind() != AffineExprKind::Add && part.getKind() != AffineExprKind::Mul;
    std::optional<int64_t> divisor = divides ? tn::constantDim(division.getRHS()) : std::nullopt;
    if (divisor && *divisor > 1 && *divisor <= kLargestDivisor) {
      divisors.insert(*divisor);
    }
  });
}

/// What the symbol must be, if the expression is linear in it and the quotient is exact.
AffineExpr valueOf(AffineExpr expression, unsigned symbol) {
  MLIRContext *context = expression.getContext();
  AffineExpr rest = with(expression, symbol, getAffineConstantExpr(0, context));
  AffineExpr atOne = with(expression, symbol, getAffineConstantExpr(1, context));
  AffineExpr slope = rest && atOne ? tn::addDims(atOne, rest * -1) : AffineExpr();
  std::optional<int64_t> factor = tn::constantDim(slope);
  if (!factor || *factor == 0 || std::abs(*factor) > kLargestDivisor) {
    return nullptr;
  }
  AffineExpr line = tn::addDims(rest, getAffineSymbolExpr(symbol, context) * *factor);
  if (!line || !tn::sameDim(line, expression)) {
    return nullptr;
  }
  // factor * symbol + rest = 0
  AffineExpr numerator = tn::simplify(*factor > 0 ? rest * -1 : rest);
  int64_t divisor = std::abs(*factor);
  AffineExpr value = numerator ? tn::simplify(numerator.floorDiv(divisor)) : AffineExpr();
  return value && tn::sameDim(value * divisor, numerator) ? value : AffineExpr();
}

/// The remainder of the symbol by the divisor with which the expression is zero.
std::optional<int64_t> remainderOf(AffineExpr expression, unsigned symbol, int64_t divisor) {
  AffineExpr multiple = getAffineSymbolExpr(symbol, expression.getContext()) * divisor;
  for (int64_t remainder = 0; remainder < std::min(divisor, kMaxRemainders); ++remainder) {
    if (isZero(with(expression, symbol, multiple + remainder))) {
      return remainder;
    }
  }
  return std::nullopt;
}

/// Better values first: constants, then those that lie in the symbol's range for certain.
int preference(AffineExpr value, const tn::Symbol &symbol, const tn::SymbolList &symbols) {
  if (tn::constantDim(value)) {
    return 2;
  }
  tn::SymbolList::Range range = symbols.bounds(value);
  return range.min >= symbol.min && range.max <= symbol.max ? 1 : 0;
}

} // namespace

std::optional<SizeSolution> solveForZero(AffineExpr difference, const tn::SymbolList &symbols) {
  std::set<unsigned> named;
  std::set<int64_t> divisors;
  collect(difference, named, divisors);
  std::optional<SizeSolution> best;
  int bestPreference = -1;
  for (unsigned symbol : named) {
    AffineExpr value = valueOf(difference, symbol);
    int preferred = value ? preference(value, symbols.symbols()[symbol], symbols) : -1;
    // Of equals the later symbol is determined by the earlier ones.
    if (preferred >= 0 && preferred >= bestPreference) {
      best = SizeSolution{symbol, value, 1, 0};
      bestPreference = preferred;
    }
  }
  if (best) {
    return best;
  }
  for (int64_t divisor : divisors) {
    SmallVector<SizeSolution> found;
    for (unsigned symbol : named) {
      if (std::optional<int64_t> remainder = remainderOf(difference, symbol, divisor)) {
        found.push_back({symbol, nullptr, divisor, *remainder});
      }
    }
    if (!found.empty()) {
      // A product of symbols is a multiple whichever of them is.
      return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
    }
  }
  return std::nullopt;
}

} // namespace tenon::frontend
