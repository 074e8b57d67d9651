// Fractions of expressions, cross-multiplied where they are compared. Relies on simplify giving
// null where int64 arithmetic would overflow.
#include "compiler/frontend/pt2/GuardFormula.h"

#include <cmath>

using namespace mlir;

namespace tenon::pt2 {
namespace {

using Op = GuardTerm::Op;
using frontend::addSizes;
using frontend::multiplySizes;
using frontend::subtractSizes;

/// Signs of larger values are not computed.
constexpr int64_t kMaxMagnitude = int64_t{1} << 60;
/// Quotients of numbers below this product differ by more than a double rounds.
constexpr int64_t kMaxCompared = int64_t{1} << 50;
constexpr int64_t kMaxExponent = 8;
constexpr unsigned kMaxCases = 64;

int64_t magnitude(tn::SymbolList::Range range) {
  bool isOpen = range.min <= -kMaxMagnitude || range.max >= kMaxMagnitude;
  return isOpen ? kMaxMagnitude : std::max(std::abs(range.min), std::abs(range.max));
}

} // namespace

//===--- Numbers ---===//

/// A number of few binary digits is what it says; one of few decimal digits can be compared.
GuardFormula::Quotient GuardFormula::real(double value) {
  for (auto [base, most, isRounded] : {std::tuple(2.0, 20, false), std::tuple(10.0, 6, true)}) {
    double below = 1;
    for (int i = 0; i <= most; ++i, below *= base) {
      double above = std::round(value * below);
      if (above / below == value && std::abs(above) < 0x1p40) {
        return {symbols.constant(static_cast<int64_t>(above)),
                symbols.constant(static_cast<int64_t>(below)), isRounded};
      }
    }
  }
  return {};
}

GuardFormula::Quotient GuardFormula::divide(Op op, Quotient left, Quotient right) {
  // Below 0 Python's signs are not those of expressions; at 0 a whole division has no value in
  // either, and the constraint does not hold.
  AffineExpr divisor = multiplySizes(left.below, right.above);
  AffineExpr dividend = multiplySizes(left.above, right.below);
  if (!divisor || !dividend || symbols.bounds(divisor).min < (op == Op::Divide ? 1 : 0)) {
    return {};
  }
  std::optional<int64_t> constant = tn::constantDim(divisor);
  if (op == Op::Divide) {
    bool isExact = constant && (*constant & (*constant - 1)) == 0;
    return {dividend, divisor, !isExact};
  }
  AffineExpr quotient = tn::simplify(dividend.floorDiv(divisor));
  if (op == Op::FloorDivide || !quotient) {
    return whole(quotient);
  }
  bool areWhole = tn::constantDim(left.below) == 1 && tn::constantDim(right.below) == 1;
  return whole(areWhole ? subtractSizes(dividend, multiplySizes(quotient, divisor)) : nullptr);
}

GuardFormula::Quotient GuardFormula::power(Quotient base, const GuardTerm &exponent) {
  Quotient result = whole(one());
  bool isKnown = exponent.op == Op::Integer && exponent.integer >= 0 &&
                 exponent.integer <= kMaxExponent && !base.isRounded;
  for (int64_t i = 0; isKnown && i < exponent.integer; ++i) {
    result.above = multiplySizes(result.above, base.above);
    result.below = multiplySizes(result.below, base.below);
  }
  return isKnown ? result : Quotient();
}

GuardFormula::Quotient GuardFormula::rounded(Op op, Quotient number) {
  if (!number || (op == Op::Trunc && symbols.bounds(number.above).min < 0)) {
    return {};
  }
  if (op == Op::Ceil) {
    number.above = addSizes(number.above, addSizes(number.below, symbols.constant(-1)));
  }
  return whole(number.above ? tn::simplify(number.above.floorDiv(number.below)) : nullptr);
}

GuardFormula::Quotient GuardFormula::combine(Op op, Quotient left, Quotient right) {
  if (!left || !right || left.isRounded || right.isRounded) {
    return {};
  }
  switch (op) {
  case Op::Add:
    return {
        addSizes(multiplySizes(left.above, right.below), multiplySizes(right.above, left.below)),
        multiplySizes(left.below, right.below), false};
  case Op::Multiply:
    return {multiplySizes(left.above, right.above), multiplySizes(left.below, right.below), false};
  default:
    return divide(op, left, right);
  }
}

GuardFormula::Quotient GuardFormula::number(const GuardTerm &term) {
  switch (term.op) {
  case Op::Integer:
    return whole(symbols.constant(term.integer));
  case Op::Real:
    return real(term.real);
  case Op::Size:
    return whole(term.size);
  case Op::Add:
  case Op::Multiply:
  case Op::Divide:
  case Op::FloorDivide:
  case Op::Mod:
    return combine(term.op, number(term.operands[0]), number(term.operands[1]));
  case Op::Power: {
    Quotient base = number(term.operands[0]);
    return base ? power(base, term.operands[1]) : Quotient();
  }
  case Op::ToReal:
    return number(term.operands[0]);
  case Op::Trunc:
  case Op::Floor:
  case Op::Ceil:
    return rounded(term.op, number(term.operands[0]));
  default:
    return {};
  }
}

//===--- Truth ---===//

AffineExpr GuardFormula::difference(const GuardTerm &comparison) {
  Quotient left = number(comparison.operands[0]), right = number(comparison.operands[1]);
  if (!left || !right || comparison.op == Op::NotEqual) {
    return nullptr;
  }
  AffineExpr above = multiplySizes(right.above, left.below);
  AffineExpr below = multiplySizes(left.above, right.below);
  if (!above || !below) {
    return nullptr;
  }
  bool isRounded = left.isRounded || right.isRounded;
  if (isRounded && (magnitude(symbols.bounds(above)) >= kMaxCompared ||
                    magnitude(symbols.bounds(below)) >= kMaxCompared)) {
    return nullptr;
  }
  AffineExpr difference = subtractSizes(above, below);
  return comparison.op == Op::Less ? addSizes(difference, symbols.constant(-1)) : difference;
}

AffineExpr GuardFormula::isNatural(AffineExpr expression) {
  tn::SymbolList::Range range = symbols.bounds(expression);
  if (range.min >= 0 || range.max < 0) {
    return symbols.constant(range.min >= 0);
  }
  int64_t most = magnitude(range);
  // Room for sizes just outside of their ranges, as that of an empty batch.
  return most < kMaxMagnitude / 4 ? expression.floorDiv(2 * most + 2) + 1 : AffineExpr();
}

AffineExpr GuardFormula::isWithin(AffineExpr value, int64_t least, std::optional<int64_t> most) {
  AffineExpr isAbove = isNatural(addSizes(value, symbols.constant(-least)));
  AffineExpr isBelow = most ? isNatural(subtractSizes(symbols.constant(*most), value)) : one();
  return isAbove && isBelow ? isAbove * isBelow : AffineExpr();
}

AffineExpr GuardFormula::either(AffineExpr a, AffineExpr b) {
  return a && b ? a + b - a * b : AffineExpr();
}

/// The innermost part that is one of two numbers: the lesser, the larger, or what is cut off
/// towards zero from a number of either sign. Null for none.
GuardTerm *GuardFormula::choiceIn(GuardTerm &term) {
  for (GuardTerm &operand : term.operands) {
    if (GuardTerm *found = choiceIn(operand)) {
      return found;
    }
  }
  bool isCut = term.op == Op::Trunc && !number(term);
  return term.op == Op::Min || term.op == Op::Max || isCut ? &term : nullptr;
}

AffineExpr GuardFormula::truthByCases(const GuardTerm &comparison) {
  GuardTerm first = comparison, second = comparison, condition{.op = Op::LessOrEqual};
  GuardTerm *choice = choiceIn(first), *other = choiceIn(second);
  if (!choice || ++cases > kMaxCases) {
    return nullptr;
  }
  if (choice->op == Op::Trunc) {
    condition.operands = {GuardTerm(), choice->operands[0]};
    choice->op = Op::Floor;
    other->op = Op::Ceil;
  } else {
    condition.operands = choice->operands; // the first is the lesser one
    size_t lesser = choice->op == Op::Min ? 0 : 1;
    *choice = GuardTerm(choice->operands[lesser]);
    *other = GuardTerm(other->operands[1 - lesser]);
  }
  AffineExpr isFirst = truth(condition), holdsFirst = truth(first), holdsSecond = truth(second);
  return isFirst && holdsFirst && holdsSecond
             ? isFirst * holdsFirst + (one() - isFirst) * holdsSecond
             : AffineExpr();
}

AffineExpr GuardFormula::truth(const GuardTerm &guard) {
  if (guard.op == Op::Not) {
    AffineExpr inner = truth(guard.operands[0]);
    return inner ? one() - inner : inner;
  }
  if (guard.op == Op::And || guard.op == Op::Or) {
    AffineExpr left = truth(guard.operands[0]), right = truth(guard.operands[1]);
    if (!left || !right) {
      return nullptr;
    }
    return guard.op == Op::And ? left * right : either(left, right);
  }
  if (!guard.isComparison()) {
    return nullptr;
  }
  bool isEquality = guard.op == Op::Equal || guard.op == Op::NotEqual;
  GuardTerm compared = guard;
  compared.op = isEquality ? Op::Equal : guard.op;
  AffineExpr more = difference(compared);
  if (!more) {
    AffineExpr known = truthByCases(guard);
    return known ? known : whereTried(guard);
  }
  AffineExpr isMore = isNatural(more);
  if (!isEquality || !isMore) {
    return isMore;
  }
  AffineExpr negated = subtractSizes(symbols.constant(0), more);
  AffineExpr isLess = negated ? isNatural(negated) : AffineExpr();
  AffineExpr isEqual = isLess ? isMore * isLess : AffineExpr();
  return isEqual && guard.op == Op::NotEqual ? one() - isEqual : isEqual;
}

} // namespace tenon::pt2
