// Makes steps and takes them apart. Relies on Simplify.cpp leaving the terms of a numerator in a
// division by a large number, so that the numerator less a constant is the excess.
#include "compiler/graph/Steps.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tenon::tn {
namespace {

/// What the two divisors are chosen for: sizes that 32 bits count, and all others.
constexpr int64_t kNarrow = int64_t{1} << 30, kWide = int64_t{1} << 50;

/// Steps of an expression that is written as choices of choices, which double with each.
constexpr size_t kMaxNested = 4;

/// What all terms of a sum but the constant are multiples of.
int64_t commonFactor(AffineExpr sum) {
  AffineBinaryOpExpr operation = dyn_cast<AffineBinaryOpExpr>(sum);
  if (operation && operation.getKind() == AffineExprKind::Add) {
    return std::gcd(commonFactor(operation.getLHS()), commonFactor(operation.getRHS()));
  }
  if (constantDim(sum)) {
    return 0;
  }
  bool isProduct = operation && operation.getKind() == AffineExprKind::Mul;
  return isProduct ? std::abs(constantDim(operation.getRHS()).value_or(1)) : 1;
}

/// Whether the first term of a sum has a factor below 0.
bool startsBelowZero(AffineExpr sum) {
  AffineBinaryOpExpr operation = dyn_cast<AffineBinaryOpExpr>(sum);
  while (operation && operation.getKind() == AffineExprKind::Add) {
    sum = operation.getLHS();
    operation = dyn_cast<AffineBinaryOpExpr>(sum);
  }
  bool isProduct = operation && operation.getKind() == AffineExprKind::Mul;
  return constantDim(isProduct ? operation.getRHS() : sum).value_or(1) < 0;
}

int64_t constantTerm(AffineExpr sum) {
  AffineBinaryOpExpr operation = dyn_cast<AffineBinaryOpExpr>(sum);
  bool isSum = operation && operation.getKind() == AffineExprKind::Add;
  return constantDim(isSum ? operation.getRHS() : sum).value_or(0);
}

AffineExpr constantLike(AffineExpr x, int64_t value) {
  return getAffineConstantExpr(value, x.getContext());
}

AffineExpr negated(AffineExpr x) { return multiplyDims(x, constantLike(x, -1)); }

/// x where it is above 0, else 0. An expression and its negative share a step.
AffineExpr positivePart(const SymbolList &symbols, AffineExpr x) {
  if (!x) {
    return x;
  }
  if (startsBelowZero(x)) {
    return addDims(positivePart(symbols, negated(x)), x);
  }
  return multiplyDims(stepDim(symbols, x), x);
}

/// The excess as `factor` times a symbol plus `offset`, with a factor of any sign.
std::optional<LinearDim> lineOf(AffineExpr excess) {
  std::optional<LinearDim> line = linearDim(excess);
  AffineExpr other = line ? AffineExpr() : negated(excess);
  if (!other || !(line = linearDim(other))) {
    return line;
  }
  line->factor = -line->factor, line->offset = -line->offset;
  return line;
}

/// The sign of a difference wherever the excess is not 0, as a multiple of the sign of the excess;
/// 0 where that is not known.
int signAgainst(AffineExpr difference, const Step &step, const SymbolList &symbols) {
  AffineExpr quotient = simplify(difference.floorDiv(step.excess));
  if (quotient && sameDim(multiplyDims(quotient, step.excess), difference)) {
    SymbolList::Range range = symbols.bounds(quotient);
    return range.min >= 0 ? 1 : range.max <= 0 ? -1 : 0;
  }
  int sign = 0;
  for (bool isAbove : {false, true}) {
    std::optional<SymbolList> side = symbolsOnSide(symbols, step, isAbove);
    if (!side) {
      continue;
    }
    SymbolList::Range range = side->bounds(difference);
    int own = range.min >= 0 ? 1 : range.max <= 0 ? -1 : 0;
    own = isAbove ? own : -own;
    if (own == 0 || (sign != 0 && own != sign)) {
      return 0;
    }
    sign = own;
  }
  return sign;
}

} // namespace

AffineExpr stepDim(const SymbolList &symbols, AffineExpr x) {
  x = x ? simplify(x) : x;
  int64_t factor = x ? commonFactor(x) : 0;
  AffineExpr reduced = factor > 1 ? simplify(x.floorDiv(factor)) : x;
  if (!reduced) {
    return reduced;
  }
  SymbolList::Range range = symbols.bounds(reduced);
  if (range.min >= 0 || range.max < 0) {
    return constantLike(x, range.min >= 0 ? 1 : 0);
  }
  int64_t offset = constantTerm(reduced);
  auto isBelow = [&](int64_t limit) {
    return std::min(range.min, offset) > -limit && std::max(range.max, offset) < limit;
  };
  int64_t beyond = isBelow(kNarrow / 2) ? kNarrow : kWide;
  AffineExpr above =
      isBelow(beyond / 2) ? addDims(reduced, constantLike(x, beyond)) : AffineExpr();
  return above ? simplify(above.floorDiv(beyond)) : above;
}

AffineExpr smallerDim(const SymbolList &symbols, AffineExpr a, AffineExpr b) {
  AffineExpr difference = a && b ? addDims(a, negated(b)) : AffineExpr();
  AffineExpr more = positivePart(symbols, difference);
  return more ? addDims(a, negated(more)) : more;
}

AffineExpr largerDim(const SymbolList &symbols, AffineExpr a, AffineExpr b) {
  AffineExpr difference = a && b ? addDims(b, negated(a)) : AffineExpr();
  return addDims(a, positivePart(symbols, difference));
}

SmallVector<Step> stepsOf(AffineExpr expression) {
  SmallVector<Step> steps;
  expression.walk([&](AffineExpr part) {
    AffineBinaryOpExpr division = dyn_cast<AffineBinaryOpExpr>(part);
    bool divides = division && part.getKind() == AffineExprKind::FloorDiv;
    int64_t divisor = divides ? constantDim(division.getRHS()).value_or(0) : 0;
    bool isKnown =
        llvm::any_of(steps, [&](const Step &known) { return known.division == part; });
    if (divisor < kLeastStepDivisor || isKnown) {
      return;
    }
    // A division that leaves the constant below half of the divisor gives -1 and 0.
    bool isShifted = constantTerm(division.getLHS()) >= divisor / 2;
    AffineExpr excess = isShifted
                            ? addDims(division.getLHS(), constantLike(part, -divisor))
                            : division.getLHS();
    if (excess) {
      steps.push_back({part, isShifted ? 1 : 0, excess});
    }
  });
  return steps;
}

bool vanishesAt(AffineExpr expression, AffineExpr excess) {
  bool vanishes = false;
  excess.walk([&](AffineExpr part) {
    if (vanishes || !isa<AffineSymbolExpr>(part)) {
      return;
    }
    for (int64_t sign : {1, -1}) {
      // Of an excess of s - rest, s is the rest where it is 0.
      AffineExpr rest = addDims(part, multiplyDims(excess, constantLike(excess, -sign)));
      bool isUnit = rest && !rest.isFunctionOfSymbol(cast<AffineSymbolExpr>(part).getPosition());
      AffineExpr there = isUnit ? simplify(expression.replace(part, rest)) : AffineExpr();
      vanishes |= there && constantDim(there) == 0;
    }
  });
  return vanishes;
}

AffineExpr onSide(AffineExpr expression, const Step &step, bool isAbove) {
  AffineExpr value = constantLike(expression, step.above - (isAbove ? 0 : 1));
  return simplify(expression.replace(step.division, value));
}

std::optional<SymbolList> symbolsOnSide(const SymbolList &symbols, const Step &step, bool isAbove) {
  SymbolList::Range range = symbols.bounds(step.excess);
  if (isAbove ? range.max < 0 : range.min >= 0) {
    return std::nullopt;
  }
  SymbolList side = symbols;
  std::optional<LinearDim> line = lineOf(step.excess);
  if (!line || line->symbol >= symbols.symbols().size()) {
    return side;
  }
  // factor * symbol + offset >= 0, or <= -1
  Symbol symbol = symbols.symbols()[line->symbol];
  int64_t limit = isAbove ? -line->offset : -1 - line->offset;
  bool isLeast = (line->factor > 0) == isAbove;
  int64_t bound = isLeast ? llvm::divideCeilSigned(limit, line->factor)
                          : llvm::divideFloorSigned(limit, line->factor);
  (isLeast ? symbol.min : symbol.max) =
      isLeast ? std::max(symbol.min, bound) : std::min(symbol.max, bound);
  if (symbol.min > symbol.max) {
    return std::nullopt;
  }
  side.setRange(line->symbol, symbol.min, symbol.max);
  return side;
}

AffineExpr withoutDecidedSteps(AffineExpr expression, const SymbolList &symbols) {
  for (bool changes = true; changes;) {
    changes = false;
    for (const Step &step : stepsOf(expression)) {
      SymbolList::Range range = symbols.bounds(step.excess);
      AffineExpr below = onSide(expression, step, false), above = onSide(expression, step, true);
      AffineExpr difference = below && above ? addDims(above, negated(below)) : AffineExpr();
      bool isBelow = range.max < 0 ||
                     (range.max == 0 && difference && vanishesAt(difference, step.excess));
      AffineExpr decided = range.min >= 0 ? above : isBelow ? below : AffineExpr();
      if (decided) {
        expression = decided;
        changes = true;
        break;
      }
    }
  }
  return expression;
}

std::optional<Extremum> asExtremum(AffineExpr expression, const SymbolList &symbols) {
  SmallVector<Step> steps = stepsOf(expression);
  if (steps.size() > kMaxNested) {
    return std::nullopt;
  }
  for (const Step &step : llvm::reverse(steps)) {
    AffineExpr below = onSide(expression, step, false), above = onSide(expression, step, true);
    AffineExpr difference = below && above ? addDims(above, negated(below)) : AffineExpr();
    int sign = difference ? signAgainst(difference, step, symbols) : 0;
    if (sign != 0) {
      return Extremum{sign > 0, below, above};
    }
  }
  return std::nullopt;
}

} // namespace tenon::tn
