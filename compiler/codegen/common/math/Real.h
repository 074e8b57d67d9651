// Arithmetic on MLIR values written as arithmetic: a value of float (or float vector) type with its
// builder. Used by the formulas of VectorMath only.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/ArrayRef.h"

namespace tenon::codegen::formula {

class Real {
public:
  Real(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value)
      : builder(&builder), loc(loc), value(value) {}

  operator mlir::Value() const { return value; }
  mlir::OpBuilder &getBuilder() const { return *builder; }
  mlir::Location getLoc() const { return loc; }

  /// A number of the same type.
  Real number(double x) const { return with(constant(floatAttr(x))); }

  Real operator+(const Real &b) const { return with(create<mlir::arith::AddFOp>(value, b.value)); }
  Real operator-(const Real &b) const { return with(create<mlir::arith::SubFOp>(value, b.value)); }
  Real operator*(const Real &b) const { return with(create<mlir::arith::MulFOp>(value, b.value)); }
  Real operator/(const Real &b) const { return with(create<mlir::arith::DivFOp>(value, b.value)); }
  Real operator-() const { return with(create<mlir::arith::NegFOp>(value)); }
  Real operator+(double b) const { return *this + number(b); }
  Real operator-(double b) const { return *this - number(b); }
  Real operator*(double b) const { return *this * number(b); }

  /// this * b + c, rounded once.
  Real fma(const Real &b, const Real &c) const {
    return with(create<mlir::math::FmaOp>(value, b.value, c.value));
  }
  Real abs() const { return with(create<mlir::math::AbsFOp>(value)); }
  Real sqrt() const { return with(create<mlir::math::SqrtOp>(value)); }
  Real trunc() const { return with(create<mlir::math::TruncOp>(value)); }
  Real floor() const { return with(create<mlir::math::FloorOp>(value)); }
  Real withSignOf(const Real &b) const {
    return with(create<mlir::math::CopySignOp>(value, b.value));
  }

  /// Ordered comparisons (false for NaN).
  mlir::Value operator<(double b) const { return compare(mlir::arith::CmpFPredicate::OLT, b); }
  mlir::Value operator>(double b) const { return compare(mlir::arith::CmpFPredicate::OGT, b); }
  mlir::Value operator==(double b) const { return compare(mlir::arith::CmpFPredicate::OEQ, b); }
  mlir::Value operator==(const Real &b) const {
    return create<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OEQ, value, b.value);
  }
  /// this where `condition`, else `b`.
  Real where(mlir::Value condition, const Real &b) const {
    return with(create<mlir::arith::SelectOp>(condition, value, b.value));
  }

  /// Horner's scheme; the coefficients begin with the constant one.
  Real polynomial(llvm::ArrayRef<double> coefficients) const {
    Real sum = number(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) {
      sum = sum.fma(*this, number(coefficient));
    }
    return sum;
  }

  /// The bits as a signless integer of the same width, and back.
  mlir::Value bits() const { return create<mlir::arith::BitcastOp>(integerType(), value); }
  Real fromBits(mlir::Value integer) const {
    return with(create<mlir::arith::BitcastOp>(value.getType(), integer));
  }
  Real fromInteger(mlir::Value integer) const {
    return with(create<mlir::arith::SIToFPOp>(value.getType(), integer));
  }
  mlir::Value integer(int64_t x) const {
    mlir::Type element = mlir::getElementTypeOrSelf(integerType());
    return constant(builder->getIntegerAttr(element, x));
  }

  template <typename Op, typename... Args> mlir::Value create(Args... args) const {
    return Op::create(*builder, loc, args...);
  }

private:
  Real with(mlir::Value other) const { return Real(*builder, loc, other); }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, double b) const {
    return create<mlir::arith::CmpFOp>(predicate, value, number(b).value);
  }
  mlir::TypedAttr floatAttr(double x) const {
    return builder->getFloatAttr(mlir::getElementTypeOrSelf(value.getType()), x);
  }
  mlir::Type integerType() const {
    mlir::Type type = value.getType();
    mlir::Type element =
        builder->getIntegerType(mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth());
    if (mlir::VectorType vector = mlir::dyn_cast<mlir::VectorType>(type)) {
      return vector.clone(element);
    }
    return element;
  }
  mlir::Value constant(mlir::TypedAttr scalar) const {
    if (mlir::VectorType vector = mlir::dyn_cast<mlir::VectorType>(value.getType())) {
      scalar =
          mlir::DenseElementsAttr::get(vector.clone(scalar.getType()), mlir::Attribute(scalar));
    }
    return create<mlir::arith::ConstantOp>(scalar);
  }

  mlir::OpBuilder *builder;
  mlir::Location loc;
  mlir::Value value;
};

} // namespace tenon::codegen::formula
