// Relies on the bodies that Normalize.cpp makes for softmax and the norms; any other is not known.
#include "compiler/codegen/cuda/rows/RowsJoint.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The tensor that a value of a body is the element of at the loops' own place, widened or not.
Value elementOf(linalg::GenericOp op, Value value) {
  if (arith::ExtFOp wide = value.getDefiningOp<arith::ExtFOp>()) {
    value = wide.getIn();
  }
  BlockArgument argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != op.getBody()) {
    return {};
  }
  OpOperand *operand = op.getMatchingOpOperand(argument);
  return isReadInPlace(op, *operand) ? operand->get() : Value();
}

/// The tensor that a value of a body is an element of, at any place.
Value tensorOf(linalg::GenericOp op, Value value) {
  BlockArgument argument = dyn_cast<BlockArgument>(value);
  bool isOwn = argument && argument.getOwner() == op.getBody();
  return isOwn ? op.getMatchingOpOperand(argument)->get() : Value();
}

/// The value that a reduction by `Combine` takes in at each step.
template <typename Combine> Value reducedValue(linalg::GenericOp op) {
  if (op.getNumResults() != 1 || !getElementTypeOrSelf(op.getResult(0)).isF32()) {
    return {};
  }
  Combine combine = op.getBody()->getTerminator()->getOperand(0).getDefiningOp<Combine>();
  if (!combine) {
    return {};
  }
  Value accumulator = op.getRegionOutputArgs()[0];
  return combine.getLhs() == accumulator ? combine.getRhs() : combine.getLhs();
}

/// Whether a value of a body is one part of this many.
bool isPartOf(Value value, int64_t count) {
  FloatAttr constant;
  return matchPattern(value, m_Constant(&constant)) &&
         constant.getValue().convertToFloat() ==
             static_cast<float>(1.0 / static_cast<double>(count));
}

/// The tensor whose moments the reductions are; null if they are none.
Value sourceOfMoments(linalg::GenericOp first, linalg::GenericOp second, int64_t length) {
  Value summed = reducedValue<arith::AddFOp>(first);
  Value squared = reducedValue<arith::AddFOp>(second);
  arith::MulFOp square = squared ? squared.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  if (!summed || !square || square.getLhs() != square.getRhs()) {
    return {};
  }
  arith::SubFOp left = square.getLhs().getDefiningOp<arith::SubFOp>();
  arith::MulFOp mean = left ? left.getRhs().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  if (!mean || tensorOf(second, mean.getLhs()) != first.getResult(0) ||
      !isPartOf(mean.getRhs(), length)) {
    return {};
  }
  Value x = elementOf(first, summed);
  return x == elementOf(second, left.getLhs()) ? x : Value();
}

bool areExponentials(linalg::GenericOp first, linalg::GenericOp second) {
  Value compared = reducedValue<arith::MaximumFOp>(first);
  Value summed = reducedValue<arith::AddFOp>(second);
  if (!compared || !summed) {
    return false;
  }
  linalg::GenericOp body = second;
  if (Value tensor = elementOf(second, summed)) {
    body = tensor.getDefiningOp<linalg::GenericOp>();
    if (!body || body.getNumReductionLoops() != 0 || body.getNumResults() != 1) {
      return false;
    }
    summed = body.getBody()->getTerminator()->getOperand(0);
  }
  math::ExpOp power = summed.getDefiningOp<math::ExpOp>();
  arith::SubFOp below = power ? power.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  if (!below || tensorOf(body, below.getRhs()) != first.getResult(0)) {
    return false;
  }
  Value x = elementOf(first, compared);
  return x && x == elementOf(body, below.getLhs());
}

Value number(OpBuilder &builder, Location location, double value) {
  return arith::ConstantOp::create(builder, location, builder.getF32FloatAttr(value));
}

} // namespace

std::optional<JointReduction> JointReduction::of(const RowsWork &work, int64_t length) {
  if (work.reductions.size() != 2) {
    return std::nullopt;
  }
  linalg::GenericOp first = work.reductions[0], second = work.reductions[1];
  if (Value source = sourceOfMoments(first, second, length)) {
    return JointReduction(length, source);
  }
  return areExponentials(first, second) ? std::optional(JointReduction(length, Value()))
                                        : std::nullopt;
}

Value JointReduction::assumed(OpBuilder &builder, Location location, Value first,
                              int64_t count) const {
  if (!source) {
    return first;
  }
  // The second divides by the length, but this is the sum of a part.
  double part = static_cast<double>(length) / static_cast<double>(count);
  return arith::MulFOp::create(builder, location, first, number(builder, location, part));
}

Value JointReduction::reduced(OpBuilder &builder, Location location, Value first,
                              Value second) const {
  if (source) {
    return second;
  }
  Value lowest = number(builder, location, -std::numeric_limits<double>::infinity());
  Value isEmpty =
      arith::CmpFOp::create(builder, location, arith::CmpFPredicate::OEQ, first, lowest);
  return arith::SelectOp::create(builder, location, isEmpty, number(builder, location, 0), second);
}

Value JointReduction::move(OpBuilder &builder, Location location, Value second, Value first,
                           Value whole) const {
  // Of infinities too.
  Value isSame = arith::CmpFOp::create(builder, location, arith::CmpFPredicate::OEQ, first, whole);
  Value below = arith::SubFOp::create(builder, location, first, whole);
  below = arith::SelectOp::create(builder, location, isSame, number(builder, location, 0), below);
  Value factor = math::ExpOp::create(builder, location, below);
  return arith::MulFOp::create(builder, location, second, factor);
}

} // namespace tenon::codegen::cuda
