// Activations are spelled out so that nothing overflows. Relies on the op's verifier for their
// names and number.
#include "compiler/codegen/common/math/RecurrentCell.h"

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

Value RecurrentCell::clipped(Value sum) {
  if (!op.getClip()) {
    return sum;
  }
  double most = op.getClip()->convertToDouble();
  Value high = arith::MinimumFOp::create(builder, location, sum, splat(most, sum.getType()));
  return arith::MaximumFOp::create(builder, location, high, splat(-most, sum.getType()));
}

Value RecurrentCell::rest(Value x) {
  return arith::SubFOp::create(builder, location, splat(1, x.getType()), x);
}

Value RecurrentCell::activate(size_t number, Value x) {
  StringRef name = cast<StringAttr>(op.getActivations()[number]).getValue();
  if (Value of = own ? own(name, x) : Value()) {
    return of;
  }
  ArrayRef<double> parameters = op.getParameters();
  Value alpha = splat(parameters.empty() ? 0 : parameters[2 * number], x.getType());
  Value beta = splat(parameters.empty() ? 0 : parameters[2 * number + 1], x.getType());
  Value one = splat(1, x.getType()), zero = splat(0, x.getType());
  auto selectWhere = [&](arith::CmpFPredicate predicate, Value bound, Value then) {
    Value holds = arith::CmpFOp::create(builder, location, predicate, x, bound);
    return arith::SelectOp::create(builder, location, holds, then, x);
  };
  auto power = [&](Value exponent) { return math::ExpOp::create(builder, location, exponent); };
  if (name == "tanh") {
    return math::TanhOp::create(builder, location, x);
  }
  if (name == "scaledtanh") {
    return multiply(alpha, math::TanhOp::create(builder, location, multiply(beta, x)));
  }
  if (name == "affine") {
    return add(multiply(alpha, x), beta);
  }
  if (name == "hardsigmoid") {
    Value line = add(multiply(alpha, x), beta);
    line = arith::MinimumFOp::create(builder, location, line, one);
    return arith::MaximumFOp::create(builder, location, line, zero);
  }
  if (name == "relu") {
    return selectWhere(arith::CmpFPredicate::OLT, zero, zero);
  }
  if (name == "leakyrelu") {
    return selectWhere(arith::CmpFPredicate::OLT, zero, multiply(alpha, x));
  }
  if (name == "thresholdedrelu") {
    return selectWhere(arith::CmpFPredicate::OLE, alpha, zero);
  }
  if (name == "elu") {
    Value below = arith::MinimumFOp::create(builder, location, x, zero);
    Value grown = math::ExpM1Op::create(builder, location, below);
    return selectWhere(arith::CmpFPredicate::OLT, zero, multiply(alpha, grown));
  }
  Value magnitude = math::AbsFOp::create(builder, location, x);
  if (name == "softsign") {
    return arith::DivFOp::create(builder, location, x, add(one, magnitude));
  }
  bool isSoftplus = name == "softplus";
  Value exponent = arith::NegFOp::create(builder, location, isSoftplus ? magnitude : x);
  Value tail = power(exponent);
  if (!isSoftplus) {
    return arith::DivFOp::create(builder, location, one, add(one, tail));
  }
  Value above = arith::MaximumFOp::create(builder, location, x, zero);
  return add(above, math::Log1pOp::create(builder, location, tail));
}

Value RecurrentCell::gruReset(Value resetSum, Value x) {
  return multiply(activate(0, clipped(resetSum)), x);
}

Value RecurrentCell::gru(Value updateSum, Value candidateSum, Value before) {
  Value update = activate(0, clipped(updateSum)), candidate = activate(1, clipped(candidateSum));
  return add(multiply(rest(update), candidate), multiply(update, before));
}

RecurrentCell::LstmState RecurrentCell::lstm(ValueRange sums, ValueRange peepholes, Value before) {
  auto gate = [&](int64_t number, Value cell) {
    Value sum = sums[number];
    sum = peepholes.empty() ? sum : add(sum, multiply(peepholes[number], cell));
    return activate(0, clipped(sum));
  };
  Value input = gate(0, before);
  Value forget = op.getInputForget() ? rest(input) : gate(2, before);
  Value added = multiply(input, activate(1, clipped(sums[3])));
  Value cell = add(multiply(forget, before), added);
  return {multiply(gate(1, cell), activate(2, cell)), cell};
}

tn::RecurrenceOp recurrenceOf(func::FuncOp region) {
  Block &body = region.getBody().front();
  auto ops = body.getOps<tn::RecurrenceOp>();
  tn::RecurrenceOp op = llvm::hasSingleElement(ops) ? *ops.begin() : tn::RecurrenceOp();
  auto isRead = [&](Value operand) {
    return isa<BlockArgument>(operand) ||
           (operand == op.getWeights() && operand.getDefiningOp<tn::UnpackOp>());
  };
  bool isAlone = op && llvm::all_of(op->getOperands(), isRead) &&
                 llvm::all_of(body.without_terminator(), [&](Operation &other) {
                   return &other == op || &other == op.getWeights().getDefiningOp();
                 });
  return isAlone ? op : tn::RecurrenceOp();
}

} // namespace tenon::codegen
