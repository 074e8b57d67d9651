// Integers by repeated multiplication, floats by math.powf. Relies on the types that the op's
// verifier allows.
#include "compiler/codegen/common/math/Power.h"

#include "compiler/codegen/common/math/ScalarEmitter.h"
#include "compiler/codegen/common/region/Failures.h"
#include "compiler/graph/Float8.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// An integer in a wider (or the same) integer type.
Value extend(ScalarEmitter &e, Value x, Type type) {
  if (x.getType() == type) {
    return x;
  }
  return e.isUnsigned() ? Value(arith::ExtUIOp::create(e.builder, e.location, type, x))
                        : Value(arith::ExtSIOp::create(e.builder, e.location, type, x));
}

/// Modulo 2^width. 1 and -1 have negative powers, that of 0 fails, others round to 0.
Value emitIntegerPower(ScalarEmitter &base, ScalarEmitter &exponent, Value x, Value n) {
  OpBuilder &b = base.builder;
  Location location = base.location;
  unsigned bits =
      std::max(x.getType().getIntOrFloatBitWidth(), n.getType().getIntOrFloatBitWidth());
  Type wide = b.getIntegerType(bits);
  Value times = extend(exponent, exponent.isUnsigned() ? n : exponent.make<math::AbsIOp>(n), wide);
  Value power = math::IPowIOp::create(b, location, extend(base, x, wide), times);
  if (wide != x.getType()) {
    power = arith::TruncIOp::create(b, location, x.getType(), power);
  }
  if (exponent.isUnsigned()) {
    return power;
  }
  Value isNegative = exponent.compare(Predicate::lt, n, exponent.constant(0));
  Value isUnit = base.compare(Predicate::eq, x, base.constant(1));
  if (!base.isUnsigned()) {
    Value isMinusOne = base.compare(Predicate::eq, x, base.constant(-1));
    isUnit = arith::OrIOp::create(b, location, isUnit, isMinusOne);
  }
  Value inverse = base.select(isUnit, power, base.constant(0));
  Value isNotZero = base.compare(Predicate::ne, x, base.constant(0));
  Value isPositive = exponent.compare(Predicate::ge, n, exponent.constant(0));
  Value isDefined = arith::OrIOp::create(b, location, isPositive, isNotZero);
  return require(b, location, base.select(isNegative, inverse, power), isDefined,
                 Failure::arithmetic);
}

/// A number as a float.
Value toFloat(ScalarEmitter &e, Value x, Type type) {
  if (!e.isFloat()) {
    return e.isUnsigned() ? Value(arith::UIToFPOp::create(e.builder, e.location, type, x))
                          : Value(arith::SIToFPOp::create(e.builder, e.location, type, x));
  }
  unsigned from = x.getType().getIntOrFloatBitWidth(), to = type.getIntOrFloatBitWidth();
  if (from == to) {
    return x;
  }
  return from < to ? Value(arith::ExtFOp::create(e.builder, e.location, type, x))
                   : Value(arith::TruncFOp::create(e.builder, e.location, type, x));
}

/// A power of integers that comes out next to an integer is that one: pow has a rounding error.
Value toInteger(ScalarEmitter &base, Type element, Value power) {
  OpBuilder &b = base.builder;
  Location location = base.location;
  constexpr double kError = 0x1p-36;
  Type type = power.getType();
  Value rounded = math::RoundEvenOp::create(b, location, power);
  Value away = math::AbsFOp::create(b, location,
                                    arith::SubFOp::create(b, location, power, rounded).getResult());
  Value error = arith::ConstantOp::create(b, location, b.getFloatAttr(type, kError));
  Value least = arith::MulFOp::create(b, location,
                                      math::AbsFOp::create(b, location, power).getResult(), error);
  Value isNear = arith::CmpFOp::create(b, location, arith::CmpFPredicate::OLE, away, least);
  Value whole = arith::SelectOp::create(b, location, isNear, rounded, power);
  Value isNumber = arith::CmpFOp::create(b, location, arith::CmpFPredicate::ORD, power, power);
  return base.select(isNumber, saturate(b, location, element, whole), base.constant(0));
}

} // namespace

/// Exponents may have another type than the base.
Value emitPow(OpBuilder &builder, Location location, PowOp op, ValueRange args) {
  Type element = getElementTypeOrSelf(op.getA());
  ScalarEmitter base(builder, location, element);
  ScalarEmitter exponent(builder, location, getElementTypeOrSelf(op.getB()));
  Value x = base.load(args[0]), n = exponent.load(args[1]);
  if (!base.isFloat() && !exponent.isFloat()) {
    return base.store(emitIntegerPower(base, exponent, x, n));
  }
  // What f32 does not hold of an exponent may be its parity.
  bool isExact = exponent.computed() == base.computed() || op.getB().getDefiningOp<ConstantOp>();
  Type wide = base.isFloat() && isExact ? base.computed() : Type(builder.getF64Type());
  Value raised = toFloat(exponent, n, wide);
  Value power = splatNumber(op.getA()) == 2.0
                    ? Value(math::Exp2Op::create(builder, location, raised))
                    : math::PowFOp::create(builder, location, toFloat(base, x, wide), raised);
  if (!base.isFloat()) {
    return base.store(toInteger(base, element, power));
  }
  return base.store(toFloat(base, power, base.computed()));
}

} // namespace tenon::codegen
