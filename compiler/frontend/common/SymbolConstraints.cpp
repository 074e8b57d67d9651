// What is taken for granted of symbols and checked when sizes are bound, and what that determines:
// ranges, multiples, values. Relies on tn::simplify giving null where int64 arithmetic would
// overflow.
#include "compiler/frontend/common/SolveSizes.h"
#include "compiler/frontend/common/Symbols.h"
#include "compiler/graph/Steps.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tenon::frontend {

//===--- Assumptions ---===//

bool Symbols::assume(tn::ConstraintKind kind, AffineExpr left, AffineExpr right) {
  left = canonical(left);
  right = canonical(right);
  if (!left || !right) {
    return false;
  }
  switch (kind) {
  case tn::ConstraintKind::equal:
    return assumeEqual(left, right);
  case tn::ConstraintKind::equal_or_one:
    return assumeEqualOrOne(left, right);
  case tn::ConstraintKind::at_least:
    return assumeAtLeast(left, right);
  case tn::ConstraintKind::divisible:
    return assumeEqual(left, multiplySizes(left.floorDiv(right), right));
  }
  return false;
}

/// Whether the expression is what a division by a constant leaves over, up to its sign.
static bool isRemainder(AffineExpr expression) {
  bool found = false;
  expression.walk([&](AffineExpr part) {
    AffineBinaryOpExpr division = dyn_cast<AffineBinaryOpExpr>(part);
    if (division && part.getKind() == AffineExprKind::FloorDiv &&
        tn::constantDim(division.getRHS())) {
      AffineExpr rest = subtractSizes(division.getLHS(), multiplySizes(part, division.getRHS()));
      AffineExpr negated = subtractSizes(getAffineConstantExpr(0, part.getContext()), rest);
      found |= tn::sameDim(expression, rest) || tn::sameDim(expression, negated);
    }
  });
  return found;
}

/// Divides both by the symbols that are factors of both: none that may be 0 is.
void Symbols::cancelFactors(AffineExpr &left, AffineExpr &right) const {
  for (unsigned i = 0; i < entries.size(); ++i) {
    AffineExpr symbol = getAffineSymbolExpr(i, context);
    auto without = [&](AffineExpr product) {
      AffineExpr rest = product.isFunctionOfSymbol(i)
                            ? tn::simplify(product.replace(symbol, constant(1)))
                            : nullptr;
      return rest && tn::sameDim(multiplySizes(rest, symbol), product) ? rest : AffineExpr();
    };
    AffineExpr first = list.symbols()[i].min > 0 ? without(left) : AffineExpr();
    AffineExpr second = first ? without(right) : AffineExpr();
    if (second) {
      left = first, right = second;
    }
  }
}

bool Symbols::assumeEqual(AffineExpr left, AffineExpr right) {
  cancelFactors(left, right);
  AffineExpr difference = subtractSizes(left, right);
  if (!difference) {
    return false;
  }
  tn::SymbolList::Range range = list.bounds(difference);
  if (range.min == 0 && range.max == 0) {
    return true;
  }
  bool isPossible = range.min <= 0 && range.max >= 0;
  if (dependsOnData(difference)) {
    return false;
  }
  std::optional<SizeSolution> solution = isPossible ? solveForZero(difference, list) : std::nullopt;
  if (!solution && isPossible && assumeZeroOnSide(difference)) {
    return true;
  }
  if (!solution) {
    if (!isPossible || !isRemainder(difference)) {
      return false;
    }
    // No single symbol decides the remainder: nothing is determined by it.
    record(tn::ConstraintKind::equal, left, right);
    return true;
  }
  return solution->value ? determine(solution->symbol, solution->value)
                         : takeMultiples(solution->symbol, solution->factor, solution->remainder);
}

/// The terms of a sum that are added, and those that are taken away: "512 - n" as 512 and n.
static std::pair<AffineExpr, AffineExpr> bySign(AffineExpr sum, AffineExpr zero) {
  AffineBinaryOpExpr operation = dyn_cast_or_null<AffineBinaryOpExpr>(sum);
  if (operation && operation.getKind() == AffineExprKind::Add) {
    auto [more, less] = bySign(operation.getLHS(), zero);
    auto [moreToo, lessToo] = bySign(operation.getRHS(), zero);
    return {addSizes(more, moreToo), addSizes(less, lessToo)};
  }
  bool isProduct = operation && operation.getKind() == AffineExprKind::Mul;
  bool isTakenAway = sum && tn::constantDim(isProduct ? operation.getRHS() : sum).value_or(1) < 0;
  return isTakenAway ? std::pair(zero, subtractSizes(zero, sum)) : std::pair(sum, zero);
}

/// A difference with a step is 0 where it is 0 on a side that the sizes are then held to: a length
/// is the lesser of itself and 512 where it is at most 512.
bool Symbols::assumeZeroOnSide(AffineExpr difference) {
  for (const tn::Step &step : tn::stepsOf(difference)) {
    for (bool isAbove : {false, true}) {
      AffineExpr own = tn::onSide(difference, step, isAbove),
                 other = tn::onSide(difference, step, !isAbove);
      std::optional<tn::SymbolList> side = tn::symbolsOnSide(list, step, !isAbove);
      if (!own || !other) {
        continue;
      }
      // The other side gives no 0 but where both meet, at an excess of 0.
      bool isMeeting = !isAbove && tn::vanishesAt(other, step.excess);
      if (isMeeting) {
        tn::Step beyond = step;
        beyond.excess = subtractSizes(step.excess, constant(1));
        side = beyond.excess ? tn::symbolsOnSide(list, beyond, true) : side;
      }
      tn::SymbolList::Range range = side ? side->bounds(other) : tn::SymbolList::Range{1, 1};
      if (range.min <= 0 && range.max >= 0) {
        continue;
      }
      // excess >= 0, or <= -1; or <= 0 where both sides meet.
      AffineExpr least = isAbove ? step.excess
                                 : subtractSizes(constant(isMeeting ? 0 : -1), step.excess);
      auto [more, less] = bySign(least, constant(0));
      return more && less && assume(tn::ConstraintKind::at_least, more, less) &&
             assume(tn::ConstraintKind::equal, own, constant(0));
    }
  }
  return false;
}

bool Symbols::assumeEqualOrOne(AffineExpr left, AffineExpr right) {
  std::optional<int64_t> size = tn::constantDim(right);
  if (!size || *size == 1) {
    return assumeEqual(left, right);
  }
  tn::SymbolList::Range range = list.bounds(left);
  bool maybeOne = range.min <= 1 && range.max >= 1;
  bool maybeSize = range.min <= *size && range.max >= *size;
  if (!maybeOne || !maybeSize) {
    return (maybeOne || maybeSize) && assumeEqual(left, maybeOne ? constant(1) : right);
  }
  if (!tn::constantDim(left)) {
    record(tn::ConstraintKind::equal_or_one, left, right);
  }
  return true;
}

bool Symbols::assumeAtLeast(AffineExpr left, AffineExpr right) {
  AffineExpr difference = subtractSizes(left, right);
  AffineExpr negated = difference ? subtractSizes(constant(0), difference) : AffineExpr();
  if (!negated) {
    return false;
  }
  tn::SymbolList::Range range = list.bounds(difference);
  if (range.min >= 0 || range.max < 0) {
    return range.min >= 0;
  }
  if (isBoundedBy(right, left)) {
    return true;
  }
  if (std::optional<tn::LinearDim> rising = tn::linearDim(difference)) {
    int64_t least = llvm::divideCeilSigned(-rising->offset, rising->factor);
    const tn::Symbol &symbol = list.symbols()[rising->symbol];
    narrow(rising->symbol, std::max(symbol.min, least), symbol.max);
  } else if (std::optional<tn::LinearDim> falling = tn::linearDim(negated)) {
    int64_t most = llvm::divideFloorSigned(-falling->offset, falling->factor);
    const tn::Symbol &symbol = list.symbols()[falling->symbol];
    narrow(falling->symbol, symbol.min, std::min(symbol.max, most));
  }
  record(tn::ConstraintKind::at_least, left, right);
  return true;
}

/// Whether data decides `value`, out of as many as `bound` at most.
bool Symbols::isBoundedBy(AffineExpr value, AffineExpr bound) const {
  AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(value);
  return symbol && llvm::any_of(entries[symbol.getPosition()].most, [&](AffineExpr most) {
           most = canonical(most);
           return tn::sameDim(most, bound) || isBoundedBy(most, bound);
         });
}

//===--- What constraints determine ---===//

/// The first dim of an input that is a line in the symbol.
AffineExpr Symbols::stated(unsigned symbol, tn::LinearDim &form) const {
  for (auto [index, entry] : llvm::enumerate(entries)) {
    AffineExpr own = getAffineSymbolExpr(index, context);
    std::optional<tn::LinearDim> line =
        entry.derived ? std::nullopt : tn::linearDim(entry.replacement ? entry.replacement : own);
    if (line && line->symbol == symbol) {
      form = *line;
      return own;
    }
  }
  form = {symbol, 1, 0};
  return getAffineSymbolExpr(symbol, context);
}

bool Symbols::determine(unsigned symbol, AffineExpr value) {
  tn::Symbol range = list.symbols()[symbol];
  tn::SymbolList::Range possible = list.bounds(value);
  if (possible.max < range.min || possible.min > range.max || !narrowTo(value, range)) {
    return false;
  }
  tn::LinearDim form;
  AffineExpr dim = stated(symbol, form);
  record(tn::ConstraintKind::equal, dim,
         addSizes(multiplySizes(value, constant(form.factor)), constant(form.offset)));
  replace(symbol, value);
  return true;
}

bool Symbols::takeMultiples(unsigned symbol, int64_t factor, int64_t remainder) {
  tn::Symbol range = list.symbols()[symbol];
  int64_t least = std::max<int64_t>(0, llvm::divideCeilSigned(range.min - remainder, factor));
  int64_t most = llvm::divideFloorSigned(range.max - remainder, factor);
  if (most < least) {
    return false;
  }
  tn::LinearDim form;
  AffineExpr dim = stated(symbol, form);
  form.offset += form.factor * remainder;
  form.factor *= factor;
  std::string name = list.symbols()[cast<AffineSymbolExpr>(dim).getPosition()].name + "/" +
                     std::to_string(form.factor);
  while (contains(name)) {
    name += "'";
  }
  AffineExpr quotient = get(name, least, most, entries[symbol].declared);
  entries.back().derived = true;
  llvm::erase_if(constraints, [&](const tn::Constraint &constraint) {
    return constraint.kind == tn::ConstraintKind::divisible &&
           constraint.left.isFunctionOfSymbol(cast<AffineSymbolExpr>(dim).getPosition());
  });
  record(tn::ConstraintKind::divisible, addSizes(dim, constant(-form.offset)),
         constant(form.factor));
  replace(symbol, addSizes(multiplySizes(quotient, constant(factor)), constant(remainder)));
  return true;
}

void Symbols::replace(unsigned symbol, AffineExpr value) {
  AffineExpr own = getAffineSymbolExpr(symbol, context);
  for (Entry &entry : entries) {
    if (entry.replacement) {
      entry.replacement = tn::simplify(entry.replacement.replace(own, value));
    }
  }
  entries[symbol].replacement = value;
  ++replacedCount;
}

bool Symbols::narrow(unsigned symbol, int64_t min, int64_t max) {
  if (min > max) {
    return false;
  }
  const tn::Symbol &before = list.symbols()[symbol];
  // A smaller range may decide steps.
  replacedCount += hasSteps && (before.min != min || before.max != max) ? 1 : 0;
  list.setRange(symbol, min, max);
  return true;
}

/// What lies in the range of `value`, if that is a line, bounds its symbol.
bool Symbols::narrowTo(AffineExpr value, tn::Symbol range) {
  std::optional<tn::LinearDim> line = tn::linearDim(value);
  if (!line) {
    return true;
  }
  const tn::Symbol &symbol = list.symbols()[line->symbol];
  int64_t least = llvm::divideCeilSigned(range.min - line->offset, line->factor);
  int64_t most = llvm::divideFloorSigned(range.max - line->offset, line->factor);
  return narrow(line->symbol, std::max(symbol.min, least), std::min(symbol.max, most));
}

/// The expression over dims of inputs alone.
AffineExpr Symbols::overInputs(AffineExpr expression) const {
  SmallVector<AffineExpr> values;
  for (auto [index, entry] : llvm::enumerate(entries)) {
    tn::LinearDim form;
    AffineExpr dim = entry.derived ? stated(index, form) : getAffineSymbolExpr(index, context);
    values.push_back(entry.derived ? (dim - form.offset).floorDiv(form.factor) : dim);
  }
  return tn::simplify(expression.replaceSymbols(values));
}

void Symbols::record(tn::ConstraintKind kind, AffineExpr left, AffineExpr right) {
  left = overInputs(left);
  right = overInputs(right);
  bool isBound = kind == tn::ConstraintKind::at_least;
  bool isKnown = llvm::any_of(constraints, [&](const tn::Constraint &known) {
    bool isStronger = isBound && known.kind == tn::ConstraintKind::equal;
    return ((known.kind == kind || isStronger) && known.left == left && known.right == right) ||
           (isStronger && known.left == right && known.right == left);
  });
  // Bounds from both sides are an equality.
  for (tn::Constraint &known : constraints) {
    if (!isKnown && isBound && known.kind == kind && known.left == right && known.right == left) {
      known.kind = tn::ConstraintKind::equal;
      return;
    }
  }
  if (!isKnown) {
    constraints.push_back({kind, left, right, node});
  }
}

} // namespace tenon::frontend
