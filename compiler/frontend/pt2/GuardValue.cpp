// Evaluates guards as Python does: integers stay integers, a division by / gives a real.
#include "compiler/frontend/pt2/GuardText.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace tenon::pt2 {
namespace {

using Op = GuardTerm::Op;

/// A number of Python; a truth value is 0 or 1.
struct GuardNumber {
  bool isReal = false;
  int64_t integer = 0;
  double real = 0;

  double asReal() const { return isReal ? real : static_cast<double>(integer); }
};

using Known = std::optional<GuardNumber>;

Known ofInteger(std::optional<int64_t> value) {
  return value ? Known(GuardNumber{.integer = *value}) : std::nullopt;
}

Known ofReal(double value) {
  return std::isfinite(value) ? Known(GuardNumber{.isReal = true, .real = value}) : std::nullopt;
}

Known toInteger(double value) {
  bool fits = value > -0x1p62 && value < 0x1p62;
  return fits ? ofInteger(static_cast<int64_t>(value)) : std::nullopt;
}

Known raised(const GuardNumber &base, const GuardNumber &exponent) {
  if (base.isReal || exponent.isReal || exponent.integer < 0) {
    return ofReal(std::pow(base.asReal(), exponent.asReal()));
  }
  std::optional<int64_t> result = 1;
  bool isTrivial = base.integer >= -1 && base.integer <= 1;
  int64_t count = isTrivial ? 2 - exponent.integer % 2 : exponent.integer;
  for (int64_t i = 0; exponent.integer > 0 && result && i < count; ++i) {
    result = llvm::checkedMul(*result, base.integer);
  }
  return ofInteger(result);
}

Known divided(Op op, const GuardNumber &left, const GuardNumber &right) {
  if (right.asReal() == 0) {
    return std::nullopt;
  }
  if (op == Op::Divide) {
    return ofReal(left.asReal() / right.asReal());
  }
  if (left.isReal || right.isReal) {
    double quotient = std::floor(left.asReal() / right.asReal());
    double rest = std::fmod(left.asReal(), right.asReal());
    bool isOtherSign = rest != 0 && (rest < 0) != (right.asReal() < 0);
    return ofReal(op == Op::FloorDivide ? quotient : isOtherSign ? rest + right.asReal() : rest);
  }
  std::optional<int64_t> quotient = llvm::divideFloorSigned(left.integer, right.integer);
  std::optional<int64_t> whole = llvm::checkedMul(*quotient, right.integer);
  return op == Op::FloorDivide ? ofInteger(quotient)
                               : ofInteger(whole ? llvm::checkedSub(left.integer, *whole) : whole);
}

Known combined(Op op, const GuardNumber &left, const GuardNumber &right) {
  bool areReal = left.isReal || right.isReal;
  double a = left.asReal(), b = right.asReal();
  bool isLess = areReal ? a < b : left.integer < right.integer;
  bool isEqual = areReal ? a == b : left.integer == right.integer;
  switch (op) {
  case Op::Add:
    return areReal ? ofReal(a + b) : ofInteger(llvm::checkedAdd(left.integer, right.integer));
  case Op::Multiply:
    return areReal ? ofReal(a * b) : ofInteger(llvm::checkedMul(left.integer, right.integer));
  case Op::Divide:
  case Op::FloorDivide:
  case Op::Mod:
    return divided(op, left, right);
  case Op::Power:
    return raised(left, right);
  case Op::Min:
    return isLess ? left : right;
  case Op::Max:
    return isLess ? right : left;
  case Op::Equal:
    return ofInteger(isEqual);
  case Op::NotEqual:
    return ofInteger(!isEqual);
  case Op::Less:
    return ofInteger(isLess);
  default:
    return ofInteger(isLess || isEqual);
  }
}

Known valueOf(const GuardTerm &term, ArrayRef<int64_t> symbols) {
  switch (term.op) {
  case Op::Integer:
    return ofInteger(term.integer);
  case Op::Real:
    return ofReal(term.real);
  case Op::Size:
    return ofInteger(symbols[cast<AffineSymbolExpr>(term.size).getPosition()]);
  default:
    break;
  }
  Known first = valueOf(term.operands[0], symbols);
  if (!first) {
    return first;
  }
  switch (term.op) {
  case Op::And:
    return first->asReal() != 0 ? valueOf(term.operands[1], symbols) : first;
  case Op::Or:
    return first->asReal() != 0 ? first : valueOf(term.operands[1], symbols);
  case Op::Not:
    return ofInteger(first->asReal() == 0);
  case Op::Trunc:
    return first->isReal ? toInteger(std::trunc(first->real)) : first;
  case Op::Floor:
    return first->isReal ? toInteger(std::floor(first->real)) : first;
  case Op::Ceil:
    return first->isReal ? toInteger(std::ceil(first->real)) : first;
  case Op::ToReal:
    return ofReal(first->asReal());
  case Op::SquareRoot:
    return ofReal(std::sqrt(first->asReal()));
  default:
    break;
  }
  Known second = valueOf(term.operands[1], symbols);
  return second ? combined(term.op, *first, *second) : std::nullopt;
}

} // namespace

bool guardHolds(const GuardTerm &guard, ArrayRef<int64_t> symbols) {
  Known value = valueOf(guard, symbols);
  return value && value->asReal() != 0;
}

} // namespace tenon::pt2
