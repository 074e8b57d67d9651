// Activations are spelled out so that nothing overflows. Relies on the op's verifier for their
// names and number.
#include "compiler/codegen/common/RecurrentCell.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen {

Value RecurrentCell::add(Value a, Value b) {
  return arith::AddFOp::create(builder, location, a, b);
}

Value RecurrentCell::multiply(Value a, Value b) {
  return arith::MulFOp::create(builder, location, a, b);
}

Value RecurrentCell::splat(double value, Type type) {
  TypedAttr number = builder.getFloatAttr(getElementTypeOrSelf(type), value);
  if (ShapedType vector = dyn_cast<ShapedType>(type)) {
    number = DenseElementsAttr::get(vector, Attribute(number));
  }
  return arith::ConstantOp::create(builder, location, number);
}

Value RecurrentCell::activate(size_t number, Value x) {
  StringRef name = cast<StringAttr>(op.getActivations()[number]).getValue();
  Value one = splat(1, x.getType()), zero = splat(0, x.getType());
  if (name == "tanh") {
    return math::TanhOp::create(builder, location, x);
  }
  if (name == "relu") {
    Value isLess = arith::CmpFOp::create(builder, location, arith::CmpFPredicate::OLT, x, zero);
    return arith::SelectOp::create(builder, location, isLess, zero, x);
  }
  Value magnitude = math::AbsFOp::create(builder, location, x);
  if (name == "softsign") {
    return arith::DivFOp::create(builder, location, x, add(one, magnitude));
  }
  bool isSoftplus = name == "softplus";
  Value exponent = arith::NegFOp::create(builder, location, isSoftplus ? magnitude : x);
  Value power = math::ExpOp::create(builder, location, exponent);
  Value added = add(one, power);
  if (!isSoftplus) {
    return arith::DivFOp::create(builder, location, one, added);
  }
  Value above = arith::MaximumFOp::create(builder, location, x, zero);
  return add(above, math::LogOp::create(builder, location, added));
}

Value RecurrentCell::gruReset(Value resetSum, Value x) {
  return multiply(activate(0, resetSum), x);
}

Value RecurrentCell::gru(Value updateSum, Value candidateSum, Value before) {
  Value update = activate(0, updateSum), candidate = activate(1, candidateSum);
  Value rest = arith::SubFOp::create(builder, location, splat(1, update.getType()), update);
  return add(multiply(rest, candidate), multiply(update, before));
}

RecurrentCell::LstmState RecurrentCell::lstm(ValueRange sums, ValueRange peepholes, Value before) {
  auto gate = [&](int64_t number, Value cell) {
    Value sum = sums[number];
    return activate(0, peepholes.empty() ? sum : add(sum, multiply(peepholes[number], cell)));
  };
  Value added = multiply(gate(0, before), activate(1, sums[3]));
  Value cell = add(multiply(gate(2, before), before), added);
  return {multiply(gate(1, cell), activate(2, cell)), cell};
}

tn::RecurrenceOp recurrenceOf(func::FuncOp region) {
  Block &body = region.getBody().front();
  tn::RecurrenceOp op = dyn_cast<tn::RecurrenceOp>(body.front());
  bool isAlone = op && llvm::hasSingleElement(body.without_terminator()) &&
                 llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>);
  return isAlone ? op : tn::RecurrenceOp();
}

} // namespace tenon::codegen
