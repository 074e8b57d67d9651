// The range of an expression over the symbols by interval arithmetic.
// Relies on the normal form of Simplify.cpp: a sum is a chain of terms with constant factors last.
#include "compiler/graph/Steps.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace tenon::tn {
namespace {

using Range = SymbolList::Range;
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
/// Remainders within remainders that are looked at, and the largest factor of one.
constexpr unsigned kMaxRemainders = 4;
/// Steps whose two sides are looked at one by one.
constexpr size_t kMaxSteps = 6;
constexpr int64_t kMaxFactor = int64_t{1} << 40;

int64_t saturatingFloorDivide(int64_t value, int64_t divisor) {
  // An open end stays open.
  return value == kMin || value == kMax ? value : llvm::divideFloorSigned(value, divisor);
}

int64_t saturatingMultiply(int64_t a, int64_t b) {
  return llvm::checkedMul(a, b).value_or((a < 0) == (b < 0) ? kMax : kMin);
}

int64_t saturatingAdd(int64_t a, int64_t b) {
  return llvm::checkedAdd(a, b).value_or(a < 0 ? kMin : kMax);
}

Range hull(std::initializer_list<int64_t> corners) {
  return {std::min(corners), std::max(corners)};
}

Range boundsOfBinary(AffineExprKind kind, Range a, Range b) {
  switch (kind) {
  case AffineExprKind::Add:
    return {saturatingAdd(a.min, b.min), saturatingAdd(a.max, b.max)};
  case AffineExprKind::Mul:
    return hull({saturatingMultiply(a.min, b.min), saturatingMultiply(a.min, b.max),
                 saturatingMultiply(a.max, b.min), saturatingMultiply(a.max, b.max)});
  default:
    break;
  }
  if (b.min <= 0) {
    return {kMin, kMax};
  }
  if (kind == AffineExprKind::Mod) {
    bool inside = a.min >= 0 && a.max < b.min;
    return inside ? a : Range{0, b.max - 1};
  }
  if (kind == AffineExprKind::CeilDiv) {
    // ceil(a / b) lies between floor(a / b) and floor((a - 1) / b) + 1 for every a and b > 0.
    Range lower = boundsOfBinary(AffineExprKind::FloorDiv, a, b);
    Range less = {saturatingAdd(a.min, -1), saturatingAdd(a.max, -1)};
    Range upper = boundsOfBinary(AffineExprKind::FloorDiv, less, b);
    return {std::max(lower.min, saturatingAdd(upper.min, 1)), saturatingAdd(upper.max, 1)};
  }
  return hull({saturatingFloorDivide(a.min, b.min), saturatingFloorDivide(a.min, b.max),
               saturatingFloorDivide(a.max, b.min), saturatingFloorDivide(a.max, b.max)});
}

/// A division by a constant, times a constant, in a sum.
struct DivisionTerm {
  AffineBinaryOpExpr division;
  int64_t divisor;
  int64_t factor;
};

/// The divisions by constants among the terms of a sum.
void collectDivisions(AffineExpr sum, SmallVectorImpl<DivisionTerm> &terms) {
  AffineBinaryOpExpr operation = dyn_cast<AffineBinaryOpExpr>(sum);
  if (!operation) {
    return;
  }
  if (operation.getKind() == AffineExprKind::Add) {
    collectDivisions(operation.getLHS(), terms);
    collectDivisions(operation.getRHS(), terms);
    return;
  }
  int64_t factor = 1;
  if (operation.getKind() == AffineExprKind::Mul && constantDim(operation.getRHS())) {
    factor = *constantDim(operation.getRHS());
    operation = dyn_cast<AffineBinaryOpExpr>(operation.getLHS());
  }
  if (operation && operation.getKind() == AffineExprKind::FloorDiv &&
      constantDim(operation.getRHS()) && factor > -kMaxFactor && factor < kMaxFactor) {
    terms.push_back({operation, *constantDim(operation.getRHS()), factor});
  }
}

/// What all terms of a sum but the constant are multiples of.
struct Lattice {
  int64_t step = 0;
  int64_t offset = 0;
};

void collectSteps(AffineExpr sum, Lattice &lattice) {
  AffineBinaryOpExpr operation = dyn_cast<AffineBinaryOpExpr>(sum);
  if (operation && operation.getKind() == AffineExprKind::Add) {
    collectSteps(operation.getLHS(), lattice);
    collectSteps(operation.getRHS(), lattice);
    return;
  }
  if (std::optional<int64_t> constant = constantDim(sum)) {
    lattice.offset = *constant;
    return;
  }
  bool isMultiple = operation && operation.getKind() == AffineExprKind::Mul;
  std::optional<int64_t> factor =
      isMultiple ? constantDim(operation.getRHS()) : std::optional<int64_t>();
  lattice.step = std::gcd(lattice.step, factor.value_or(1));
}

/// The range without the values that no multiple takes.
Range onLattice(Range range, AffineExpr sum) {
  Lattice lattice;
  collectSteps(sum, lattice);
  bool isSmall = lattice.offset > -kMaxFactor && lattice.offset < kMaxFactor &&
                 range.min > -kMaxFactor && range.max < kMaxFactor;
  if (lattice.step < 2 || !isSmall) {
    return range;
  }
  auto steps = [&](int64_t value) {
    return llvm::divideFloorSigned(value - lattice.offset, lattice.step) * lattice.step +
           lattice.offset;
  };
  return {steps(range.min + lattice.step - 1), steps(range.max)};
}

/// Intervals forget that terms of a sum depend on each other. Two such dependences are sizes' own:
/// what a division leaves over, x - d floor(x / d), lies between 0 and d - 1, and what was padded
/// to a multiple of d is one.
class Bounds {
public:
  explicit Bounds(ArrayRef<Symbol> theSymbols) : symbols(theSymbols) {}

  Range of(AffineExpr expression) {
    Range range = apart(expression);
    if (depth >= kMaxRemainders || expression.getKind() != AffineExprKind::Add) {
      return range;
    }
    ++depth;
    SmallVector<DivisionTerm> terms;
    collectDivisions(expression, terms);
    for (const DivisionTerm &term : terms) {
      if (std::optional<Range> other = asQuotient(expression, term)) {
        range = {std::max(range.min, other->min), std::min(range.max, other->max)};
      }
    }
    --depth;
    return onLattice(range, expression);
  }

private:
  /// The range of the sum with the division taken for the quotient, of which it is a rest less:
  /// x - d < d floor(x / d) + 1 and d floor(x / d) <= x.
  std::optional<Range> asQuotient(AffineExpr sum, const DivisionTerm &term) {
    AffineExpr others = simplify(sum - term.division * term.factor);
    AffineExpr scaled = others
                            ? simplify(others * term.divisor + term.division.getLHS() * term.factor)
                            : AffineExpr();
    if (!scaled || term.divisor > kMaxFactor) {
      return std::nullopt;
    }
    Range rest = hull({0, saturatingMultiply(-term.factor, term.divisor - 1)});
    Range times = boundsOfBinary(AffineExprKind::Add, of(scaled), rest);
    return Range{times.min == kMin ? kMin : llvm::divideCeilSigned(times.min, term.divisor),
                 saturatingFloorDivide(times.max, term.divisor)};
  }

  /// The range with all parts taken as independent.
  Range apart(AffineExpr expression) {
    if (AffineConstantExpr constant = dyn_cast<AffineConstantExpr>(expression)) {
      return {constant.getValue(), constant.getValue()};
    }
    if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(expression)) {
      unsigned position = symbol.getPosition();
      return position < symbols.size() ? Range{symbols[position].min, symbols[position].max}
                                       : Range{0, kMax};
    }
    AffineBinaryOpExpr operation = dyn_cast<AffineBinaryOpExpr>(expression);
    if (!operation) {
      return {kMin, kMax};
    }
    bool isSum = expression.getKind() == AffineExprKind::Add;
    auto part = [&](AffineExpr operand) { return isSum ? apart(operand) : of(operand); };
    return boundsOfBinary(expression.getKind(), part(operation.getLHS()), part(operation.getRHS()));
  }

  ArrayRef<Symbol> symbols;
  unsigned depth = 0;
};

/// The range of a value where an excess lies on one side, by its sum with the excess.
Range besideExcess(const SymbolList &symbols, AffineExpr value, AffineExpr excess, bool isAbove) {
  Range range = symbols.bounds(value);
  AffineExpr less = simplify(value - excess), more = simplify(value + excess);
  if (!less || !more) {
    return range;
  }
  Range lower = symbols.bounds(isAbove ? less : more), upper = symbols.bounds(isAbove ? more : less);
  int64_t apart = isAbove ? 0 : 1;
  return {std::max(range.min, saturatingAdd(lower.min, apart)),
          std::min(range.max, saturatingAdd(upper.max, -apart))};
}

/// The range over both sides of a step.
std::optional<Range> boundsOfSides(const SymbolList &symbols, AffineExpr expression,
                                   const Step &step) {
  std::optional<Range> both;
  for (bool isAbove : {false, true}) {
    AffineExpr value = onSide(expression, step, isAbove);
    if (!value) {
      return std::nullopt;
    }
    if (std::optional<SymbolList> side = symbolsOnSide(symbols, step, isAbove)) {
      Range range = besideExcess(*side, value, step.excess, isAbove);
      both = both ? Range{std::min(both->min, range.min), std::max(both->max, range.max)} : range;
    }
  }
  return both;
}

} // namespace

SymbolList::Range SymbolList::bounds(AffineExpr expression) const {
  if (!expression) {
    return {0, kMax};
  }
  SmallVector<Step> steps = stepsOf(expression);
  std::optional<Range> bySides = steps.empty() || steps.size() > kMaxSteps
                                     ? std::nullopt
                                     : boundsOfSides(*this, expression, steps.front());
  return bySides ? *bySides : Bounds(list).of(expression);
}

} // namespace tenon::tn
