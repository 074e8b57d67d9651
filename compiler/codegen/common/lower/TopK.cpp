// The k largest or smallest of a row: a few by repeated selection, each pass over the axis finding
// the element that comes next in order; more from a heap.
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/Heap.h"
#include "compiler/codegen/common/lower/Ranked.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
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
        element(getElementTypeOrSelf(op.getX())), x(lowering.materialize(op.getX())) {
    zero = arith::ConstantIndexOp::create(lowering.builder, location, 0);
    one = arith::ConstantIndexOp::create(lowering.builder, location, 1);
    length = indexValue(getDims(op.getX().getType())[op.getAxis()]);
    wanted = indexValue(getDims(op.getValues().getType())[op.getAxis()]);
  }

  LogicalResult bind();

private:
  Value indexValue(AffineExpr size) {
    return getValueOrCreateConstantIndexOp(lowering.builder, location, lowering.size(size));
  }
  Value before(OpBuilder &b, Ranked a, Ranked other) { return isBefore(b, location, op, a, other); }
  /// The first element along the axis that stands after `previous`; its index is negative before
  /// the first.
  Ranked next(OpBuilder &b, SmallVector<Value> position, Ranked previous);
  scf::ValueVector selectInPasses(OpBuilder &b, SmallVector<Value> position, ValueRange carried);
  scf::ValueVector selectByHeap(OpBuilder &b, SmallVector<Value> position, ValueRange carried);

  Lowering &lowering;
  TopKOp op;
  Location location;
  Type element;
  Value x;
  Value zero, one, length, wanted;
};

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

scf::ValueVector Selection::selectInPasses(OpBuilder &b, SmallVector<Value> position,
                                           ValueRange carried) {
  Type storage = storageType(element);
  Code code(b, location);
  Value empty = arith::ConstantOp::create(b, location, b.getZeroAttr(accumulatorType(element)));
  SmallVector<Value> inits(carried);
  inits.append({empty, code.integer(-1)});
  ResultRange results =
      code.loop(wanted, inits, [&](Code inner, Value k, ValueRange state) -> SmallVector<Value> {
        Ranked found = next(inner.b, position, {state[2], state[3]});
        SmallVector<Value> target(position);
        target[op.getAxis()] = k;
        Value stored = narrow(inner.b, location, found.value, storage);
        return {inner.put(stored, state[0], target), inner.put(found.index, state[1], target),
                found.value, found.index};
      });
  return {results[0], results[1]};
}

/// A heap of the best so far with the last of them on top; `carried` has a list for it behind the
/// results.
scf::ValueVector Selection::selectByHeap(OpBuilder &b, SmallVector<Value> position,
                                         ValueRange carried) {
  Code code(b, location);
  auto ranked = [&](Code at, Value number) -> Ranked {
    position[op.getAxis()] = at.asIndex(number);
    return {widen(at.b, location, at.at(x, position)), number};
  };
  auto order = [&](Code at, Value a, Value other) {
    return before(at.b, ranked(at, other), ranked(at, a));
  };
  Value list = code.loop(wanted, carried[2], [](Code inner, Value i, ValueRange lists) {
    return SmallVector<Value>{inner.put(inner.asInteger(i), lists[0], i)};
  })[0];
  Heap heap = makeHeap(code, {list, wanted}, order);
  // A heap of none has no top that could be replaced.
  Value isAny = code.compare(arith::CmpIPredicate::ne, wanted, zero);
  Value others = code.select(isAny, code.sub(length, wanted), zero);
  heap.list = code.loop(others, heap.list, [&](Code inner, Value i, ValueRange lists) {
    Value number = inner.asInteger(inner.add(wanted, i));
    return SmallVector<Value>{replaceTop(inner, {lists[0], wanted}, number, order).list};
  })[0];
  ResultRange results =
      code.loop(wanted, {carried[0], carried[1], heap.list, wanted},
                [&](Code inner, Value, ValueRange state) -> SmallVector<Value> {
                  auto [last, rest] = takeTop(inner, {state[2], state[3]}, order);
                  position[op.getAxis()] = inner.asIndex(last);
                  Value value = inner.at(x, position);
                  position[op.getAxis()] = rest.length;
                  return {inner.put(value, state[0], position), inner.put(last, state[1], position),
                          rest.list, rest.length};
                });
  return {results[0], results[1], results[2]};
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
  SmallVector<Value> results = {lowering.empty(dims, storage),
                                lowering.empty(dims, lowering.builder.getI64Type())};
  bool hasHeap = takesMany(op);
  if (hasHeap) {
    results.push_back(lowering.filled({dims[op.getAxis()]}, lowering.builder.getI64IntegerAttr(0)));
  }
  auto selectAll = [&](OpBuilder &b, ValueRange outer, ValueRange carried) {
    SmallVector<Value> position(outer);
    position.insert(position.begin() + op.getAxis(), zero);
    return hasHeap ? selectByHeap(b, position, carried) : selectInPasses(b, position, carried);
  };
  if (starts.empty()) {
    results = selectAll(lowering.builder, {}, results);
  } else {
    results = scf::buildLoopNest(lowering.builder, location, starts, bounds, steps, results,
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

bool takesMany(TopKOp op) {
  // Passes over an axis cost more than a heap from about here on.
  constexpr int64_t mostPasses = 8;
  std::optional<int64_t> count = constantDim(getDims(op.getValues().getType())[op.getAxis()]);
  return !count || *count > mostPasses;
}

namespace {

/// Whether `a` is larger than `b`; NaN is larger than every number.
Value isLarger(OpBuilder &b, Location location, Type element, Value a, Value other) {
  if (isa<FloatType>(a.getType())) {
    Value isNumber = arith::CmpFOp::create(b, location, arith::CmpFPredicate::ORD, other, other);
    Value isMore = arith::CmpFOp::create(b, location, arith::CmpFPredicate::UGT, a, other);
    return arith::AndIOp::create(b, location, isNumber, isMore);
  }
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  return arith::CmpIOp::create(
      b, location, isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt, a, other);
}

} // namespace

Value isBefore(OpBuilder &b, Location location, TopKOp op, Ranked a, Ranked other) {
  Type element = getElementTypeOrSelf(op.getX());
  Value up = isLarger(b, location, element, a.value, other.value);
  Value down = isLarger(b, location, element, other.value, a.value);
  Value differ = arith::OrIOp::create(b, location, up, down);
  Value isLower =
      arith::CmpIOp::create(b, location, arith::CmpIPredicate::slt, a.index, other.index);
  return arith::SelectOp::create(b, location, differ, op.getLargest() ? up : down, isLower);
}

LogicalResult computeTopK(Lowering &lowering, Operation *op) {
  return Selection(lowering, cast<TopKOp>(op)).bind();
}

} // namespace tenon::codegen
