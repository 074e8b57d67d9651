// The k largest or smallest in order: a heap of the best so far, whose root is the worst of them,
// is then sorted. Relies on bufferization updating the list of the heap in place.
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

class Selection {
public:
  Selection(Lowering &lowering, TopKOp op)
      : lowering(lowering), op(op), location(lowering.location),
        type(getElementTypeOrSelf(op.getX())), x(lowering.materialize(op.getX())) {
    zero = arith::ConstantIndexOp::create(lowering.builder, location, 0);
    one = arith::ConstantIndexOp::create(lowering.builder, location, 1);
    length = indexValue(getDims(op.getX().getType())[op.getAxis()]);
    kept = indexValue(getDims(op.getValues().getType())[op.getAxis()]);
  }

  LogicalResult bind();

private:
  Value indexValue(AffineExpr size) {
    return getValueOrCreateConstantIndexOp(lowering.builder, location, lowering.size(size));
  }
  /// Whether `a` is larger than `b`; NaN is larger than every number.
  Value larger(OpBuilder &b, Value a, Value other);
  /// Whether the element with index `a` stands before that with index `other` in the result: of
  /// equal ones the lower index.
  Value before(OpBuilder &b, ValueRange line, Value a, Value other);
  Value element(OpBuilder &b, ValueRange line, Value index);
  Value held(OpBuilder &b, ValueRange line, Value heap, Value place);
  Value hold(OpBuilder &b, ValueRange line, Value heap, Value place, Value index);
  /// Lets the element at `place` of the first `count` sink until no worse one is below it.
  Value sink(OpBuilder &b, ValueRange line, Value heap, Value place, Value count, Value levels);
  Value heapLevels(OpBuilder &b);
  /// Indices of the best along one line of the axis, in order.
  Value selectLine(OpBuilder &b, ValueRange line, Value heap);

  Lowering &lowering;
  TopKOp op;
  Location location;
  Type type;
  Value x;
  Value zero, one, length, kept;
};

Value Selection::larger(OpBuilder &b, Value a, Value other) {
  if (isa<FloatType>(a.getType())) {
    Value isNumber = arith::CmpFOp::create(b, location, arith::CmpFPredicate::ORD, other, other);
    Value isMore = arith::CmpFOp::create(b, location, arith::CmpFPredicate::UGT, a, other);
    return arith::AndIOp::create(b, location, isNumber, isMore);
  }
  bool isUnsigned = type.isUnsignedInteger() || type.isInteger(1);
  return arith::CmpIOp::create(
      b, location, isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt, a, other);
}

Value Selection::element(OpBuilder &b, ValueRange line, Value index) {
  SmallVector<Value> position(line);
  position.insert(position.begin() + op.getAxis(), index);
  return widen(b, location, tensor::ExtractOp::create(b, location, x, position));
}

Value Selection::before(OpBuilder &b, ValueRange line, Value a, Value other) {
  Value left = element(b, line, a), right = element(b, line, other);
  Value up = larger(b, left, right), down = larger(b, right, left);
  Value differ = arith::OrIOp::create(b, location, up, down);
  Value isLower = arith::CmpIOp::create(b, location, arith::CmpIPredicate::slt, a, other);
  return arith::SelectOp::create(b, location, differ, op.getLargest() ? up : down, isLower);
}

Value Selection::held(OpBuilder &b, ValueRange line, Value heap, Value place) {
  SmallVector<Value> position(line);
  position.insert(position.begin() + op.getAxis(), place);
  Value index = tensor::ExtractOp::create(b, location, heap, position);
  return arith::IndexCastOp::create(b, location, b.getIndexType(), index);
}

Value Selection::hold(OpBuilder &b, ValueRange line, Value heap, Value place, Value index) {
  SmallVector<Value> position(line);
  position.insert(position.begin() + op.getAxis(), place);
  Value stored = arith::IndexCastOp::create(b, location, b.getI64Type(), index);
  return tensor::InsertOp::create(b, location, stored, heap, position);
}

Value Selection::sink(OpBuilder &b, ValueRange line, Value heap, Value place, Value count,
                      Value levels) {
  auto level = [&](OpBuilder &inner, Location, Value, ValueRange state) {
    auto isLess = [&](Value a, Value other) -> Value {
      return arith::CmpIOp::create(inner, location, arith::CmpIPredicate::slt, a, other);
    };
    auto choose = [&](Value condition, Value a, Value other) -> Value {
      return arith::SelectOp::create(inner, location, condition, a, other);
    };
    Value list = state[0], at = state[1];
    Value doubled = arith::AddIOp::create(inner, location, at, at);
    Value left = arith::AddIOp::create(inner, location, doubled, one);
    Value right = arith::AddIOp::create(inner, location, left, one);
    Value isAny = isLess(left, count);
    left = choose(isAny, left, at);
    right = choose(isLess(right, count), right, left);
    Value leftIndex = held(inner, line, list, left), rightIndex = held(inner, line, list, right);
    Value isRightWorse = before(inner, line, leftIndex, rightIndex);
    Value worse = choose(isRightWorse, right, left);
    Value worseIndex = choose(isRightWorse, rightIndex, leftIndex);
    Value index = held(inner, line, list, at);
    Value sinks = before(inner, line, index, worseIndex);
    list = hold(inner, line, list, at, choose(sinks, worseIndex, index));
    Value next = choose(sinks, worse, at);
    list = hold(inner, line, list, next, index);
    scf::YieldOp::create(inner, location, ValueRange{list, next});
  };
  return scf::ForOp::create(b, location, zero, levels, one, ValueRange{heap, place}, level)
      .getResult(0);
}

/// How many powers of two, from 1 on, are not above the size of the heap.
Value Selection::heapLevels(OpBuilder &b) {
  Value most = arith::ConstantIndexOp::create(b, location, 64);
  scf::ForOp count = scf::ForOp::create(
      b, location, zero, most, one, ValueRange{one, zero},
      [&](OpBuilder &inner, Location, Value, ValueRange state) {
        Value fits =
            arith::CmpIOp::create(inner, location, arith::CmpIPredicate::sle, state[0], kept);
        Value twice = arith::AddIOp::create(inner, location, state[0], state[0]);
        Value power = arith::SelectOp::create(inner, location, fits, twice, state[0]);
        Value more = arith::AddIOp::create(inner, location, state[1], one);
        Value levels = arith::SelectOp::create(inner, location, fits, more, state[1]);
        scf::YieldOp::create(inner, location, ValueRange{power, levels});
      });
  return count.getResult(1);
}

Value Selection::selectLine(OpBuilder &b, ValueRange line, Value heap) {
  auto loop = [&](Value from, Value to, Value list,
                  llvm::function_ref<Value(OpBuilder &, Value at, Value list)> body) -> Value {
    return scf::ForOp::create(b, location, from, to, one, ValueRange{list},
                              [&](OpBuilder &inner, Location, Value at, ValueRange state) {
                                scf::YieldOp::create(inner, location, body(inner, at, state[0]));
                              })
        .getResult(0);
  };
  Value levels = heapLevels(b);
  auto minus = [&](OpBuilder &inner, Value a, Value other) -> Value {
    return arith::SubIOp::create(inner, location, a, other);
  };
  Value two = arith::ConstantIndexOp::create(b, location, 2);
  Value parents = arith::DivSIOp::create(b, location, kept, two);
  heap = loop(zero, kept, heap, [&](OpBuilder &inner, Value at, Value list) {
    return hold(inner, line, list, at, at);
  });
  heap = loop(zero, parents, heap, [&](OpBuilder &inner, Value at, Value list) {
    Value place = minus(inner, minus(inner, parents, one), at);
    return sink(inner, line, list, place, kept, levels);
  });
  Value isAny = arith::CmpIOp::create(b, location, arith::CmpIPredicate::sgt, kept, zero);
  Value end = arith::SelectOp::create(b, location, isAny, length, kept);
  heap = loop(kept, end, heap, [&](OpBuilder &inner, Value at, Value list) {
    Value worst = held(inner, line, list, zero);
    Value isBetter = before(inner, line, at, worst);
    list = hold(inner, line, list, zero,
                arith::SelectOp::create(inner, location, isBetter, at, worst));
    Value steps = arith::SelectOp::create(inner, location, isBetter, levels, zero);
    return sink(inner, line, list, zero, kept, steps);
  });
  return loop(one, kept, heap, [&](OpBuilder &inner, Value at, Value list) {
    Value last = minus(inner, kept, at);
    Value worst = held(inner, line, list, zero), other = held(inner, line, list, last);
    list = hold(inner, line, list, zero, other);
    list = hold(inner, line, list, last, worst);
    return sink(inner, line, list, zero, last, levels);
  });
}

LogicalResult Selection::bind() {
  if (!x) {
    return failure();
  }
  Type storage = storageType(type);
  Dims dims = getDims(op.getValues().getType());
  SmallVector<Value> starts, bounds, steps;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (i != static_cast<size_t>(op.getAxis())) {
      bounds.push_back(indexValue(dim));
    }
  }
  starts.resize(bounds.size(), zero);
  steps.resize(bounds.size(), one);
  SmallVector<Value> results = {lowering.empty(dims, storage),
                                lowering.empty(dims, lowering.builder.getI64Type())};
  auto selectAll = [&](OpBuilder &b, ValueRange line, ValueRange carried) -> scf::ValueVector {
    Value heap = selectLine(b, line, carried[1]);
    scf::ForOp copy = scf::ForOp::create(
        b, location, zero, kept, one, carried[0],
        [&](OpBuilder &inner, Location, Value at, ValueRange state) {
          SmallVector<Value> target(line);
          target.insert(target.begin() + op.getAxis(), at);
          Value value = element(inner, line, held(inner, line, heap, at));
          Value stored = narrow(inner, location, value, storage);
          Value values = tensor::InsertOp::create(inner, location, stored, state[0], target);
          scf::YieldOp::create(inner, location, values);
        });
    return {copy.getResult(0), heap};
  };
  // A list is one line: all results are those of one nest.
  bool isList = starts.empty();
  if (isList) {
    starts = {zero};
    bounds = steps = {one};
  }
  results = scf::buildLoopNest(lowering.builder, location, starts, bounds, steps, results,
                               [&](OpBuilder &b, Location, ValueRange at, ValueRange carried) {
                                 return selectAll(b, isList ? ValueRange() : at, carried);
                               })
                .results;
  lowering.bind(op.getValues(), results[0]);
  lowering.bind(op.getIndices(), results[1]);
  return success();
}

} // namespace

LogicalResult computeTopK(Lowering &lowering, Operation *op) {
  return Selection(lowering, cast<TopKOp>(op)).bind();
}

} // namespace tenon::codegen
