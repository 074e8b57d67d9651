// The k largest or smallest by repeated selection: each pass over the axis finds the element that
// comes next in order. Relies on k being small where the axis is long.
#include "compiler/codegen/common/Compute.h"
#include "compiler/codegen/common/Reduce.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// An element and its i64 index; the index is negative before the first.
struct Ranked {
  Value value, index;
};

class Selection {
public:
  Selection(Lowering &lowering, TopKOp op)
      : lowering(lowering), op(op), location(lowering.location),
        element(getElementTypeOrSelf(op.getX())), x(lowering.materialize(op.getX())) {
    zero = arith::ConstantIndexOp::create(lowering.builder, location, 0);
    one = arith::ConstantIndexOp::create(lowering.builder, location, 1);
    length = indexValue(getDims(op.getX().getType())[op.getAxis()]);
  }

  LogicalResult bind();

private:
  Value indexValue(AffineExpr size) {
    return getValueOrCreateConstantIndexOp(lowering.builder, location, lowering.size(size));
  }
  /// Whether `a` is larger than `b`; NaN is larger than every number.
  Value larger(OpBuilder &b, Value a, Value other);
  /// Whether `a` stands before `other` in the result: of equal ones the lower index.
  Value before(OpBuilder &b, Ranked a, Ranked other);
  /// The first element along the axis that stands after `previous`.
  Ranked next(OpBuilder &b, SmallVector<Value> position, Ranked previous);

  Lowering &lowering;
  TopKOp op;
  Location location;
  Type element;
  Value x;
  Value zero, one, length;
};

Value Selection::larger(OpBuilder &b, Value a, Value other) {
  if (isa<FloatType>(a.getType())) {
    Value isNumber = arith::CmpFOp::create(b, location, arith::CmpFPredicate::ORD, other, other);
    Value isMore = arith::CmpFOp::create(b, location, arith::CmpFPredicate::UGT, a, other);
    return arith::AndIOp::create(b, location, isNumber, isMore);
  }
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  return arith::CmpIOp::create(
      b, location, isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt, a, other);
}

Value Selection::before(OpBuilder &b, Ranked a, Ranked other) {
  Value up = larger(b, a.value, other.value), down = larger(b, other.value, a.value);
  Value differ = arith::OrIOp::create(b, location, up, down);
  Value isLower =
      arith::CmpIOp::create(b, location, arith::CmpIPredicate::slt, a.index, other.index);
  return arith::SelectOp::create(b, location, differ, op.getLargest() ? up : down, isLower);
}

Ranked Selection::next(OpBuilder &b, SmallVector<Value> position, Ranked previous) {
  Value none = arith::ConstantOp::create(b, location, b.getI64IntegerAttr(-1));
  Value start = arith::ConstantOp::create(b, location, b.getI64IntegerAttr(0));
  auto isUnset = [&](OpBuilder &inner, Ranked ranked) -> Value {
    return arith::CmpIOp::create(inner, location, arith::CmpIPredicate::slt, ranked.index, start);
  };
  scf::ForOp scan = scf::ForOp::create(
      b, location, zero, length, one, ValueRange{previous.value, none},
      [&](OpBuilder &inner, Location, Value at, ValueRange carried) {
        position[op.getAxis()] = at;
        Value value =
            widen(inner, location, tensor::ExtractOp::create(inner, location, x, position));
        Ranked here{value, arith::IndexCastOp::create(inner, location, inner.getI64Type(), at)};
        Ranked best{carried[0], carried[1]};
        Value follows = arith::OrIOp::create(inner, location, isUnset(inner, previous),
                                             before(inner, previous, here));
        Value better =
            arith::OrIOp::create(inner, location, isUnset(inner, best), before(inner, here, best));
        Value take = arith::AndIOp::create(inner, location, follows, better);
        Value newValue = arith::SelectOp::create(inner, location, take, here.value, best.value);
        Value newIndex = arith::SelectOp::create(inner, location, take, here.index, best.index);
        scf::YieldOp::create(inner, location, ValueRange{newValue, newIndex});
      });
  return {scan.getResult(0), scan.getResult(1)};
}

LogicalResult Selection::bind() {
  if (!x) {
    return failure();
  }
  Type storage = storageType(element);
  Dims dims = getDims(op.getValues().getType());
  SmallVector<Value> starts, bounds, steps;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (i != static_cast<size_t>(op.getAxis())) {
      bounds.push_back(indexValue(dim));
    }
  }
  starts.resize(bounds.size(), zero);
  steps.resize(bounds.size(), one);
  // The axis is the innermost loop, so that each selection knows the one before it.
  bounds.push_back(indexValue(dims[op.getAxis()]));
  Value empty = arith::ConstantOp::create(lowering.builder, location,
                                          lowering.builder.getZeroAttr(accumulatorType(element)));
  Value none =
      arith::ConstantOp::create(lowering.builder, location, lowering.builder.getI64IntegerAttr(-1));
  SmallVector<Value> results = {lowering.empty(dims, storage),
                                lowering.empty(dims, lowering.builder.getI64Type())};
  auto selectAll = [&](OpBuilder &b, ValueRange outer, ValueRange carried) -> scf::ValueVector {
    SmallVector<Value> position(outer);
    position.insert(position.begin() + op.getAxis(), zero);
    SmallVector<Value> inits(carried);
    inits.append({empty, none});
    scf::ForOp loop = scf::ForOp::create(
        b, location, zero, bounds.back(), one, inits,
        [&](OpBuilder &inner, Location, Value k, ValueRange state) {
          Ranked found = next(inner, position, {state[2], state[3]});
          SmallVector<Value> target(position);
          target[op.getAxis()] = k;
          Value stored = narrow(inner, location, found.value, storage);
          Value values = tensor::InsertOp::create(inner, location, stored, state[0], target);
          Value indices = tensor::InsertOp::create(inner, location, found.index, state[1], target);
          scf::YieldOp::create(inner, location,
                               ValueRange{values, indices, found.value, found.index});
        });
    return {loop.getResult(0), loop.getResult(1)};
  };
  if (starts.empty()) {
    results = selectAll(lowering.builder, {}, results);
  } else {
    results = scf::buildLoopNest(lowering.builder, location, starts,
                                 ArrayRef<Value>(bounds).drop_back(), steps, results,
                                 [&](OpBuilder &b, Location, ValueRange at, ValueRange carried) {
                                   return selectAll(b, at, carried);
                                 })
                  .results;
  }
  lowering.bind(op.getValues(), results[0]);
  lowering.bind(op.getIndices(), results[1]);
  return success();
}

} // namespace

LogicalResult computeTopK(Lowering &lowering, Operation *op) {
  return Selection(lowering, cast<TopKOp>(op)).bind();
}

} // namespace tenon::codegen
