// Numbers are followed in double precision, and only through what masks are made of.
#include "compiler/graph/PaddedContent.h"

#include "compiler/graph/TnRare.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace tenon::tn {

namespace {

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

std::optional<double> castTo(Type type, double x) {
  if (type.isInteger(1)) {
    return x != 0;
  }
  // What an integer type does not hold, and how a narrower float rounds, is not followed.
  return isa<FloatType>(type) || std::abs(x) <= 127
             ? std::optional(isa<FloatType>(type) ? x : std::trunc(x))
             : std::nullopt;
}

bool holds(Predicate predicate, double a, double b) {
  switch (predicate) {
  case Predicate::eq:
    return a == b;
  case Predicate::ne:
    return a != b;
  case Predicate::lt:
    return a < b;
  case Predicate::le:
    return a <= b;
  case Predicate::gt:
    return a > b;
  case Predicate::ge:
    return a >= b;
  }
  return false;
}

std::optional<double> unary(Operation *op, double x) {
  return llvm::TypeSwitch<Operation *, std::optional<double>>(op)
      .Case([&](CastOp cast) { return castTo(elementOf(cast.getY()), x); })
      .Case([&](NotOp) {
        return elementOf(op->getResult(0)).isInteger(1) ? std::optional(1 - x) : std::nullopt;
      })
      .Case([&](NegOp) { return -x; })
      .Case([&](AbsOp) { return std::abs(x); })
      .Case([&](ReluOp) { return std::max(x, 0.0); })
      .Case([&](ClampOp clamp) {
        return std::min(std::max(x, clamp.getLo().convertToDouble()),
                        clamp.getHi().convertToDouble());
      })
      .Case([&](IsNanOp) { return std::isnan(x); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<double> binary(Operation *op, double a, double b) {
  bool isBool = elementOf(op->getResult(0)).isInteger(1);
  return llvm::TypeSwitch<Operation *, std::optional<double>>(op)
      .Case([&](AddOp) { return a + b; })
      .Case([&](SubOp) { return a - b; })
      .Case([&](MulOp) { return a * b; })
      .Case([&](DivOp) {
        return isa<FloatType>(elementOf(op->getResult(0))) ? std::optional(a / b) : std::nullopt;
      })
      .Case([&](MaxOp) { return std::max(a, b); })
      .Case([&](MinOp) { return std::min(a, b); })
      .Case([&](AndOp) { return isBool ? std::optional<double>(a != 0 && b != 0) : std::nullopt; })
      .Case([&](OrOp) { return isBool ? std::optional<double>(a != 0 || b != 0) : std::nullopt; })
      .Case([&](XorOp) { return isBool ? std::optional<double>(a != b) : std::nullopt; })
      .Case([&](CompareOp compare) { return holds(compare.getPredicate(), a, b); })
      .Default([](Operation *) { return std::nullopt; });
}

/// Where one operand alone decides.
Content dominated(Operation *op, const Content &a, const Content &b, bool isFinite) {
  bool isBool = elementOf(op->getResult(0)).isInteger(1);
  const Content hidden = {Content::Kind::Hidden, 0};
  auto isOr = [&](auto isSo) { return isSo(a) || isSo(b); };
  return llvm::TypeSwitch<Operation *, Content>(op)
      .Case([&](MulOp) {
        bool isZero = isFinite && isOr([](const Content &each) { return each.is(0); });
        return isZero ? Content::of(0) : Content();
      })
      .Case([&](AndOp) {
        bool isFalse = isBool && isOr([](const Content &each) { return each.is(0); });
        return isFalse ? Content::of(0) : Content();
      })
      .Case([&](OrOp) {
        bool isTrue = isBool && isOr([](const Content &each) { return each.is(1); });
        return isTrue ? Content::of(1) : Content();
      })
      .Case([&](AddOp) {
        return isFinite && isOr([](const Content &each) { return each.isHidden(); }) ? hidden
                                                                                     : Content();
      })
      .Case([&](SubOp) {
        bool isSo = a.isHidden() || (b.number() && *b.number() >= -Content::kHidden);
        return isFinite && isSo ? hidden : Content();
      })
      .Case([&](MaxOp) { return a.isHidden() && b.isHidden() ? hidden : Content(); })
      .Case([&](MinOp) {
        return isOr([](const Content &each) { return each.isHidden(); }) ? hidden : Content();
      })
      .Default([](Operation *) { return Content(); });
}

} // namespace

std::optional<double> numberOf(ConstantOp constant) {
  DenseElementsAttr elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat()) {
    return std::nullopt;
  }
  if (isa<FloatType>(elements.getElementType())) {
    APFloat value = elements.getSplatValue<APFloat>();
    bool isExact = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &isExact);
    return value.convertToDouble();
  }
  IntegerType type = dyn_cast<IntegerType>(elements.getElementType());
  if (!type) {
    return std::nullopt;
  }
  APInt value = elements.getSplatValue<APInt>();
  bool isSigned = !type.isUnsigned() && type.getWidth() > 1;
  return isSigned ? value.signedRoundToDouble() : value.roundToDouble();
}

Content contentOf(Operation *op, ArrayRef<Content> operands, bool isFinite) {
  if (SelectOp select = dyn_cast<SelectOp>(op)) {
    if (std::optional<double> condition = operands[0].number()) {
      return operands[*condition != 0 ? 1 : 2];
    }
    bool isHidden = operands[1].isHidden() && operands[2].isHidden();
    return operands[1] == operands[2] ? operands[1]
           : isHidden                 ? Content{Content::Kind::Hidden, 0}
                                      : Content();
  }
  if (isa<RequireOp>(op)) {
    return operands[0];
  }
  std::optional<double> number;
  if (operands.size() == 1) {
    if (operands[0].kind == Content::Kind::Hidden) {
      return isa<CastOp>(op) && isa<FloatType>(elementOf(op->getResult(0))) ? operands[0]
             : isa<IsNanOp>(op) && isFinite                                 ? Content::of(0)
                                                                            : Content();
    }
    number = operands[0].number() ? unary(op, *operands[0].number()) : std::nullopt;
  } else if (operands.size() == 2) {
    if (!operands[0].number() || !operands[1].number()) {
      return dominated(op, operands[0], operands[1], isFinite);
    }
    number = binary(op, *operands[0].number(), *operands[1].number());
  }
  return number && !std::isnan(*number) ? Content::of(number) : Content();
}

bool keepsFinite(Operation *op) {
  return !isa<DivOp, LogOp, SqrtOp, RsqrtOp, ReciprocalOp, PowOp, ModOp, ExpOp, TanOp, AsinOp,
              AcosOp, SinhOp, CoshOp, AcoshOp, AtanhOp, BitcastOp, DecodeOp>(op);
}

} // namespace tenon::tn
