// Builds the arith and math ops of scalar bodies in one compute type, so that an op is written once
// for floats, signed and unsigned integers. Header only; used by ScalarBody.cpp.
#pragma once

#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tenon::codegen {

/// Builds values of one compute type: i1 for bool, f32 for half-width floats, else the storage
/// type.
class ScalarEmitter {
public:
  ScalarEmitter(mlir::OpBuilder &builder, mlir::Location location, mlir::Type element)
      : builder(builder), location(location), element(element) {
    type = computeType(element);
  }

  static mlir::Type computeType(mlir::Type element) {
    if (llvm::isa<mlir::FloatType>(element) && element.getIntOrFloatBitWidth() < 32) {
      return mlir::Float32Type::get(element.getContext());
    }
    return element.isInteger(1) ? element : storageType(element);
  }

  bool isFloat() const { return llvm::isa<mlir::FloatType>(type); }
  bool isUnsigned() const { return element.isUnsignedInteger() || element.isInteger(1); }
  mlir::Type computed() const { return type; }

  mlir::Value load(mlir::Value stored) {
    if (element.isInteger(1)) {
      mlir::Value zero =
          mlir::arith::ConstantOp::create(builder, location, builder.getI8IntegerAttr(0));
      return mlir::arith::CmpIOp::create(builder, location, mlir::arith::CmpIPredicate::ne, stored,
                                         zero);
    }
    if (stored.getType() != type) {
      return widenStored(builder, location, type, stored);
    }
    return stored;
  }

  mlir::Value store(mlir::Value value) {
    if (element.isInteger(1)) {
      return mlir::arith::ExtUIOp::create(builder, location, builder.getI8Type(), value);
    }
    mlir::Type stored = storageType(element);
    if (value.getType() != stored) {
      return roundForStorage(builder, location, stored, value);
    }
    return value;
  }

  mlir::Value constant(double value) {
    if (isFloat()) {
      return mlir::arith::ConstantOp::create(builder, location, builder.getFloatAttr(type, value));
    }
    return mlir::arith::ConstantOp::create(
        builder, location, builder.getIntegerAttr(type, static_cast<int64_t>(value)));
  }

  /// The nearest number of the type that `mode` leads to; integers saturate.
  mlir::Value bound(double value, llvm::RoundingMode mode) {
    if (isFloat()) {
      return constant(value);
    }
    llvm::APSInt nearest(type.getIntOrFloatBitWidth(), isUnsigned());
    bool isExact = false;
    llvm::APFloat(value).convertToInteger(nearest, mode, &isExact);
    return mlir::arith::ConstantOp::create(builder, location,
                                           builder.getIntegerAttr(type, nearest));
  }

  template <typename Op> mlir::Value make(mlir::ValueRange operands) {
    return Op::create(builder, location, operands[0].getType(), operands);
  }
  template <typename FloatOp, typename SignedOp, typename UnsignedOp>
  mlir::Value pick(mlir::ValueRange operands) {
    if (isFloat()) {
      return make<FloatOp>(operands);
    }
    return isUnsigned() ? make<UnsignedOp>(operands) : make<SignedOp>(operands);
  }

  mlir::Value add(mlir::Value a, mlir::Value b) {
    return pick<mlir::arith::AddFOp, mlir::arith::AddIOp, mlir::arith::AddIOp>({a, b});
  }
  mlir::Value sub(mlir::Value a, mlir::Value b) {
    return pick<mlir::arith::SubFOp, mlir::arith::SubIOp, mlir::arith::SubIOp>({a, b});
  }
  mlir::Value mul(mlir::Value a, mlir::Value b) {
    return pick<mlir::arith::MulFOp, mlir::arith::MulIOp, mlir::arith::MulIOp>({a, b});
  }
  /// Integers never trap: the quotient by zero is 0, the one that overflows wraps.
  mlir::Value div(mlir::Value a, mlir::Value b) {
    if (isFloat()) {
      return make<mlir::arith::DivFOp>({a, b});
    }
    mlir::Value quotient = pick<mlir::arith::DivFOp, mlir::arith::DivSIOp, mlir::arith::DivUIOp>(
        {a, safeDivisor(a, b)});
    return select(compare(tn::Predicate::eq, b, constant(0)), constant(0), quotient);
  }
  /// An integer divisor with 1 instead of one that the machine traps on.
  mlir::Value safeDivisor(mlir::Value a, mlir::Value b) {
    mlir::Value traps = compare(tn::Predicate::eq, b, constant(0));
    if (!isUnsigned()) {
      mlir::Value least = mlir::arith::ConstantOp::create(
          builder, location,
          builder.getIntegerAttr(type,
                                 llvm::APInt::getSignedMinValue(type.getIntOrFloatBitWidth())));
      mlir::Value isLeast = compare(tn::Predicate::eq, a, least);
      mlir::Value isMinusOne = compare(tn::Predicate::eq, b, constant(-1));
      mlir::Value overflows = mlir::arith::AndIOp::create(builder, location, isLeast, isMinusOne);
      traps = mlir::arith::OrIOp::create(builder, location, traps, overflows);
    }
    return select(traps, constant(1), b);
  }
  mlir::Value max(mlir::Value a, mlir::Value b) {
    return pick<mlir::arith::MaximumFOp, mlir::arith::MaxSIOp, mlir::arith::MaxUIOp>({a, b});
  }
  mlir::Value min(mlir::Value a, mlir::Value b) {
    return pick<mlir::arith::MinimumFOp, mlir::arith::MinSIOp, mlir::arith::MinUIOp>({a, b});
  }
  mlir::Value exp(mlir::Value x) { return make<mlir::math::ExpOp>(x); }

  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(builder, location, condition, a, b);
  }

  /// Ordered comparisons, so that NaN compares false, but `ne` holds for NaN.
  mlir::Value compare(tn::Predicate predicate, mlir::Value a, mlir::Value b) {
    static constexpr mlir::arith::CmpFPredicate floats[] = {
        mlir::arith::CmpFPredicate::OEQ, mlir::arith::CmpFPredicate::UNE,
        mlir::arith::CmpFPredicate::OLT, mlir::arith::CmpFPredicate::OLE,
        mlir::arith::CmpFPredicate::OGT, mlir::arith::CmpFPredicate::OGE};
    static constexpr mlir::arith::CmpIPredicate signedInts[] = {
        mlir::arith::CmpIPredicate::eq,  mlir::arith::CmpIPredicate::ne,
        mlir::arith::CmpIPredicate::slt, mlir::arith::CmpIPredicate::sle,
        mlir::arith::CmpIPredicate::sgt, mlir::arith::CmpIPredicate::sge};
    static constexpr mlir::arith::CmpIPredicate unsignedInts[] = {
        mlir::arith::CmpIPredicate::eq,  mlir::arith::CmpIPredicate::ne,
        mlir::arith::CmpIPredicate::ult, mlir::arith::CmpIPredicate::ule,
        mlir::arith::CmpIPredicate::ugt, mlir::arith::CmpIPredicate::uge};
    unsigned index = static_cast<unsigned>(predicate);
    if (isFloat()) {
      return mlir::arith::CmpFOp::create(builder, location, floats[index], a, b);
    }
    return mlir::arith::CmpIOp::create(
        builder, location, isUnsigned() ? unsignedInts[index] : signedInts[index], a, b);
  }

  mlir::OpBuilder &builder;
  mlir::Location location;

private:
  mlir::Type element;
  mlir::Type type;
};

} // namespace tenon::codegen
