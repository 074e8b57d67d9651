// Emits the scalar form of elementwise `tn` ops. Relies on the op's verified types; transcendental
// functions stay math ops, which each target expands in its own way.
#include "compiler/codegen/common/math/ScalarBody.h"

#include "compiler/codegen/common/math/LowBits.h"
#include "compiler/codegen/common/math/Power.h"
#include "compiler/codegen/common/math/ScalarEmitter.h"
#include "compiler/codegen/common/region/Failures.h"
#include "compiler/graph/ElementType.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

Value emitSigmoid(ScalarEmitter &e, Value x) {
  Value one = e.constant(1);
  Value negated = e.make<arith::NegFOp>(x);
  return e.div(one, e.add(one, e.exp(negated)));
}

Value emitGelu(ScalarEmitter &e, Value x, bool approximate) {
  Value inner;
  if (approximate) {
    Value cube = e.mul(e.mul(x, x), x);
    Value sum = e.add(x, e.mul(e.constant(0.044715), cube));
    inner = e.make<math::TanhOp>(e.mul(e.constant(0.7978845608028654), sum));
  } else {
    inner = e.make<math::ErfOp>(e.mul(x, e.constant(0.7071067811865476)));
  }
  Value half = e.mul(x, e.constant(0.5));
  return e.add(half, e.mul(half, inner));
}

/// log(1 + exp(x)) without overflow, and with its digits where exp(x) is small: max(x, 0) +
/// log1p(exp(-|x|)).
Value emitSoftplus(ScalarEmitter &e, Value x) {
  Value tail = e.exp(e.make<arith::NegFOp>(e.make<math::AbsFOp>(x)));
  return e.add(e.max(x, e.constant(0)), e.make<math::Log1pOp>(tail));
}

Value emitSign(ScalarEmitter &e, Value x) {
  Value zero = e.constant(0);
  Value one = e.constant(1);
  Value positive = e.compare(Predicate::gt, x, zero);
  if (e.isUnsigned()) {
    return e.select(positive, one, zero);
  }
  // x itself where it compares with neither side, so that NaN stays NaN.
  Value otherwise = e.isFloat() ? x : zero;
  Value negative = e.compare(Predicate::lt, x, zero);
  return e.select(positive, one, e.select(negative, e.constant(-1), otherwise));
}

/// Remainder whose sign follows the divisor, or the dividend with `fmod`; that by zero fails for
/// integers.
Value emitMod(ScalarEmitter &e, Value a, Value b, bool fmod) {
  Value zero = e.constant(0);
  Value remainder;
  if (e.isFloat()) {
    remainder = e.make<arith::RemFOp>({a, b});
  } else {
    Value divisor = e.safeDivisor(a, b);
    remainder = e.isUnsigned() ? e.make<arith::RemUIOp>({a, divisor})
                               : e.make<arith::RemSIOp>({a, divisor});
    Value isDivisor = e.compare(Predicate::ne, b, zero);
    remainder = require(e.builder, e.location, remainder, isDivisor, Failure::arithmetic);
  }
  if (e.isUnsigned() || fmod) {
    return remainder;
  }
  Value differ = e.make<arith::XOrIOp>(
      {e.compare(Predicate::lt, remainder, zero), e.compare(Predicate::lt, b, zero)});
  Value inexact = e.compare(Predicate::ne, remainder, zero);
  Value adjust = e.make<arith::AndIOp>({differ, inexact});
  return e.select(adjust, e.add(remainder, b), remainder);
}

/// No rounding here is one of storage (kForStorage): the model asks for it.
Value emitCast(OpBuilder &builder, Location location, CastOp op, Value stored) {
  Type from = getElementTypeOrSelf(op.getX());
  Type to = getElementTypeOrSelf(op.getY());
  ScalarEmitter source(builder, location, from);
  ScalarEmitter target(builder, location, to);
  bool isWidened = source.isFloat() && stored.getType() != source.computed();
  Value x = isWidened
                ? arith::ExtFOp::create(builder, location, source.computed(), stored).getResult()
                : source.load(stored);
  Type type = target.computed();
  Value y = x;
  if (to.isInteger(1)) {
    y = from.isInteger(1) ? x : source.compare(Predicate::ne, x, source.constant(0));
  } else if (source.isFloat() && target.isFloat()) {
    unsigned fromBits = x.getType().getIntOrFloatBitWidth();
    unsigned toBits = type.getIntOrFloatBitWidth();
    if (fromBits < toBits) {
      y = arith::ExtFOp::create(builder, location, type, x);
    } else if (fromBits > toBits) {
      // Rounds once, straight to the stored type.
      return arith::TruncFOp::create(builder, location, storageType(to), x);
    }
  } else if (source.isFloat()) {
    Value isNumber = source.compare(Predicate::eq, x, x);
    y = target.select(isNumber, saturate(builder, location, to, x), target.constant(0));
  } else if (target.isFloat()) {
    y = source.isUnsigned() ? Value(arith::UIToFPOp::create(builder, location, type, x))
                            : Value(arith::SIToFPOp::create(builder, location, type, x));
  } else if (x.getType().getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth()) {
    y = source.isUnsigned() ? Value(arith::ExtUIOp::create(builder, location, type, x))
                            : Value(arith::ExtSIOp::create(builder, location, type, x));
  } else if (x.getType() != type) {
    y = arith::TruncIOp::create(builder, location, type, x);
  }
  bool isRounded = target.isFloat() && y.getType() != storageType(to);
  return isRounded ? arith::TruncFOp::create(builder, location, storageType(to), y).getResult()
                   : target.store(y);
}

/// A bool is a byte that is 0 or 1.
Value emitBitcast(OpBuilder &builder, Location location, BitcastOp op, Value stored) {
  Type to = getElementTypeOrSelf(op.getY());
  Type storage = storageType(to);
  Value y = stored.getType() == storage
                ? stored
                : arith::BitcastOp::create(builder, location, storage, stored).getResult();
  if (!to.isInteger(1)) {
    return y;
  }
  Value zero = arith::ConstantOp::create(builder, location, builder.getI8IntegerAttr(0));
  Value isSet = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, y, zero);
  return arith::ExtUIOp::create(builder, location, storage, isSet);
}

Value emitIsInf(ScalarEmitter &e, IsInfOp op, Value x) {
  Value result = arith::ConstantOp::create(e.builder, e.location, e.builder.getBoolAttr(false));
  double infinity = std::numeric_limits<double>::infinity();
  if (op.getPositive()) {
    result = e.compare(Predicate::eq, x, e.constant(infinity));
  }
  if (op.getNegative()) {
    Value negative = e.compare(Predicate::eq, x, e.constant(-infinity));
    result = e.make<arith::OrIOp>({result, negative});
  }
  return result;
}

Value emitNot(ScalarEmitter &e, Value x) {
  Value ones = arith::ConstantOp::create(
      e.builder, e.location,
      e.builder.getIntegerAttr(x.getType(),
                               APInt::getAllOnes(x.getType().getIntOrFloatBitWidth())));
  return e.make<arith::XOrIOp>({x, ones});
}

/// Shifts by the width or more give 0, which the machine's shifts do not.
Value emitShift(ScalarEmitter &e, Value a, Value b, bool left) {
  Value width = e.constant(a.getType().getIntOrFloatBitWidth());
  Value shifted = left ? e.make<arith::ShLIOp>({a, b}) : e.make<arith::ShRUIOp>({a, b});
  Value inRange = e.compare(Predicate::lt, b, width);
  return e.select(inRange, shifted, e.constant(0));
}

/// The quotient by zero fails; the one that overflows wraps.
Value emitDiv(ScalarEmitter &e, Value a, Value b) {
  if (e.isFloat()) {
    return e.div(a, b);
  }
  Value isDefined = e.compare(Predicate::ne, b, e.constant(0));
  return require(e.builder, e.location, e.div(a, b), isDefined, Failure::arithmetic);
}

/// Ops of one operand, in the compute type; null if `op` is not one of them.
Value emitUnary(ScalarEmitter &e, Operation *op, Value x) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](AbsOp) -> Value {
        if (e.isFloat()) {
          return e.make<math::AbsFOp>(x);
        }
        return e.isUnsigned() ? x : e.make<math::AbsIOp>(x);
      })
      .Case([&](NegOp) { return e.isFloat() ? e.make<arith::NegFOp>(x) : e.sub(e.constant(0), x); })
      .Case([&](ExpOp) { return e.exp(x); })
      .Case([&](LogOp) { return e.make<math::LogOp>(x); })
      .Case([&](SqrtOp) { return e.make<math::SqrtOp>(x); })
      .Case([&](RsqrtOp) { return e.div(e.constant(1), e.make<math::SqrtOp>(x)); })
      .Case([&](ReciprocalOp) { return e.div(e.constant(1), x); })
      .Case([&](SinOp) { return e.make<math::SinOp>(x); })
      .Case([&](CosOp) { return e.make<math::CosOp>(x); })
      .Case([&](TanOp) { return e.make<math::TanOp>(x); })
      .Case([&](AsinOp) { return e.make<math::AsinOp>(x); })
      .Case([&](AcosOp) { return e.make<math::AcosOp>(x); })
      .Case([&](AtanOp) { return e.make<math::AtanOp>(x); })
      .Case([&](SinhOp) { return e.make<math::SinhOp>(x); })
      .Case([&](CoshOp) { return e.make<math::CoshOp>(x); })
      .Case([&](TanhOp) { return e.make<math::TanhOp>(x); })
      .Case([&](AsinhOp) { return e.make<math::AsinhOp>(x); })
      .Case([&](AcoshOp) { return e.make<math::AcoshOp>(x); })
      .Case([&](AtanhOp) { return e.make<math::AtanhOp>(x); })
      .Case([&](ErfOp) { return e.make<math::ErfOp>(x); })
      .Case([&](CeilOp) { return e.make<math::CeilOp>(x); })
      .Case([&](FloorOp) { return e.make<math::FloorOp>(x); })
      .Case([&](RoundOp) { return e.make<math::RoundEvenOp>(x); })
      .Case([&](SignOp) { return emitSign(e, x); })
      .Case([&](NotOp) { return emitNot(e, x); })
      .Case([&](ReluOp) {
        Value zero = e.constant(0);
        return e.select(e.compare(Predicate::lt, x, zero), zero, x);
      })
      .Case([&](SigmoidOp) { return emitSigmoid(e, x); })
      .Case([&](SiluOp) { return e.mul(x, emitSigmoid(e, x)); })
      .Case([&](GeluOp gelu) { return emitGelu(e, x, gelu.getApproximate()); })
      .Case([&](SoftplusOp) { return emitSoftplus(e, x); })
      .Case([&](LeakyReluOp leaky) {
        Value scaled = e.mul(x, e.constant(leaky.getAlpha().convertToDouble()));
        return e.select(e.compare(Predicate::lt, x, e.constant(0)), scaled, x);
      })
      .Case([&](EluOp elu) {
        Value grown = e.make<math::ExpM1Op>(e.min(x, e.constant(0)));
        Value scaled = e.mul(grown, e.constant(elu.getAlpha().convertToDouble()));
        return e.select(e.compare(Predicate::lt, x, e.constant(0)), scaled, x);
      })
      .Case([&](HardSigmoidOp hard) {
        Value line = e.add(e.mul(x, e.constant(hard.getAlpha().convertToDouble())),
                           e.constant(hard.getBeta().convertToDouble()));
        return e.max(e.constant(0), e.min(e.constant(1), line));
      })
      .Case([&](ClampOp clamp) {
        Value low = e.bound(clamp.getLo().convertToDouble(), llvm::RoundingMode::TowardPositive);
        Value high = e.bound(clamp.getHi().convertToDouble(), llvm::RoundingMode::TowardNegative);
        Value above = e.select(e.compare(Predicate::lt, x, low), low, x);
        return e.select(e.compare(Predicate::gt, above, high), high, above);
      })
      .Default([](Operation *) { return Value(); });
}

/// Ops of two operands of one type with a result of that type; null if `op` is not one of them.
Value emitBinary(ScalarEmitter &e, Operation *op, Value a, Value b) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](AddOp) { return e.add(a, b); })
      .Case([&](SubOp) { return e.sub(a, b); })
      .Case([&](MulOp) { return e.mul(a, b); })
      .Case([&](DivOp) { return emitDiv(e, a, b); })
      .Case([&](MaxOp) { return e.max(a, b); })
      .Case([&](MinOp) { return e.min(a, b); })
      .Case([&](ModOp mod) { return emitMod(e, a, b, mod.getFmod()); })
      .Case([&](AndOp) { return e.make<arith::AndIOp>({a, b}); })
      .Case([&](OrOp) { return e.make<arith::OrIOp>({a, b}); })
      .Case([&](XorOp) { return e.make<arith::XOrIOp>({a, b}); })
      .Case([&](ShiftOp shift) { return emitShift(e, a, b, shift.getLeft()); })
      .Default([](Operation *) { return Value(); });
}

} // namespace

Value roundForStorage(OpBuilder &builder, Location location, Type stored, Value value) {
  return arith::TruncFOp::create(builder, location, stored, value, arith::RoundingModeAttr(),
                                 arith::FastMathFlagsAttr::get(builder.getContext(), kForStorage));
}

Value widenStored(OpBuilder &builder, Location location, Type wide, Value value) {
  return arith::ExtFOp::create(builder, location, wide, value,
                               arith::FastMathFlagsAttr::get(builder.getContext(), kForStorage));
}

Type storageType(Type element) {
  if (element.isInteger(1) || tn::isLowBit(element)) {
    return IntegerType::get(element.getContext(), 8);
  }
  if (IntegerType integer = dyn_cast<IntegerType>(element)) {
    return IntegerType::get(element.getContext(), integer.getWidth());
  }
  return element;
}

TypedAttr storedElement(Attribute element, Type storage) {
  FloatAttr number = dyn_cast<FloatAttr>(element);
  if (number && number.getType() == storage) {
    return number;
  }
  APInt bits = number ? number.getValue().bitcastToAPInt() : cast<IntegerAttr>(element).getValue();
  return IntegerAttr::get(storage, bits.zextOrTrunc(storage.getIntOrFloatBitWidth()));
}

bool hasScalarBody(Operation *op) { return op->hasTrait<TnElementwise>(); }

Value saturate(OpBuilder &builder, Location location, Type element, Value x) {
  Type storage = storageType(element);
  unsigned width = storage.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  APInt low = isUnsigned ? APInt::getZero(width) : APInt::getSignedMinValue(width);
  APInt high = isUnsigned ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
  auto real = [&](const APInt &bound) -> Value {
    return arith::ConstantOp::create(
        builder, location,
        builder.getFloatAttr(x.getType(), bound.roundToDouble(/*isSigned=*/!isUnsigned)));
  };
  Value top = real(high);
  // NaN becomes the lowest.
  Value above = arith::MaxNumFOp::create(builder, location, x, real(low));
  Value held = arith::MinNumFOp::create(builder, location, above, top);
  Value integer = isUnsigned ? Value(arith::FPToUIOp::create(builder, location, storage, held))
                             : Value(arith::FPToSIOp::create(builder, location, storage, held));
  // A float may not hold the highest integer itself.
  Value isTop = arith::CmpFOp::create(builder, location, arith::CmpFPredicate::OGE, above, top);
  Value most = arith::ConstantOp::create(builder, location, builder.getIntegerAttr(storage, high));
  return arith::SelectOp::create(builder, location, isTop, most, integer);
}

Value emitScalarBody(OpBuilder &builder, Location location, Operation *op, ValueRange args) {
  if (CastOp cast = dyn_cast<CastOp>(op)) {
    return emitCast(builder, location, cast, args[0]);
  }
  if (EncodeOp encode = dyn_cast<EncodeOp>(op)) {
    return emitEncode(builder, location, encode, args[0]);
  }
  if (DecodeOp decode = dyn_cast<DecodeOp>(op)) {
    return emitDecode(builder, location, decode, args[0]);
  }
  if (BitcastOp bitcast = dyn_cast<BitcastOp>(op)) {
    return emitBitcast(builder, location, bitcast, args[0]);
  }
  if (PowOp pow = dyn_cast<PowOp>(op)) {
    return emitPow(builder, location, pow, args);
  }
  ScalarEmitter result(builder, location, getElementTypeOrSelf(op->getResult(0)));
  if (isa<SelectOp>(op)) {
    ScalarEmitter condition(builder, location, builder.getI1Type());
    return result.select(condition.load(args[0]), args[1], args[2]);
  }
  if (RequireOp required = dyn_cast<RequireOp>(op)) {
    ScalarEmitter condition(builder, location, builder.getI1Type());
    return require(builder, location, args[0], condition.load(args[1]), required.getFailure());
  }
  ScalarEmitter e(builder, location, getElementTypeOrSelf(op->getOperand(0)));
  Value a = e.load(args[0]);
  if (IsInfOp isInf = dyn_cast<IsInfOp>(op)) {
    return result.store(emitIsInf(e, isInf, a));
  }
  if (isa<IsNanOp>(op)) {
    return result.store(e.compare(Predicate::ne, a, a));
  }
  if (args.size() == 1) {
    return result.store(emitUnary(e, op, a));
  }
  Value b = e.load(args[1]);
  if (CompareOp compare = dyn_cast<CompareOp>(op)) {
    return result.store(e.compare(compare.getPredicate(), a, b));
  }
  return result.store(emitBinary(e, op, a, b));
}

} // namespace tenon::codegen
