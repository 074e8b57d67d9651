// Selections whose every step depends on those before it: the true elements of a list, and boxes
// that overlap no better one. Loop nests; relies on bufferization updating their lists in place.
#include "compiler/codegen/common/Boxes.h"
#include "compiler/codegen/common/Compute.h"
#include "compiler/codegen/common/Reduce.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// Scalars and loops at one place of the code.
class Code {
public:
  Code(OpBuilder &builder, Location place) : b(builder), location(place) {}

  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, location, value); }
  Value integer(int64_t value) {
    return arith::ConstantOp::create(b, location, b.getI64IntegerAttr(value));
  }
  Value asInteger(Value x) { return arith::IndexCastOp::create(b, location, b.getI64Type(), x); }
  Value asIndex(Value x) { return arith::IndexCastOp::create(b, location, b.getIndexType(), x); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, location, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, location, x, y); }
  /// Of a number that is not negative.
  Value half(Value x) { return arith::DivUIOp::create(b, location, x, index(2)); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, location, condition, x, y);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, location, predicate, x, y);
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, location, x, y); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, location, x, y); }
  Value isMore(Value x, Value y) {
    return arith::CmpFOp::create(b, location, arith::CmpFPredicate::OGT, x, y);
  }
  Value isSame(Value x, Value y) {
    return arith::CmpFOp::create(b, location, arith::CmpFPredicate::OEQ, x, y);
  }
  Value at(Value tensor, ValueRange position) {
    return tensor::ExtractOp::create(b, location, tensor, position);
  }
  Value put(Value element, Value tensor, ValueRange position) {
    return tensor::InsertOp::create(b, location, element, tensor, position);
  }
  /// Whether an element of a tensor of bools is true.
  Value holds(Value tensor, ValueRange position) {
    Value element = at(tensor, position);
    Value no = arith::ConstantOp::create(b, location, b.getZeroAttr(element.getType()));
    return compare(arith::CmpIPredicate::ne, element, no);
  }

  using BodyFn = llvm::function_ref<SmallVector<Value>(Code, Value at, ValueRange carried)>;
  /// A loop from 0 to `end`.
  ResultRange loop(Value end, ValueRange carried, BodyFn body) {
    return scf::ForOp::create(b, location, index(0), end, index(1), carried,
                              [&](OpBuilder &inner, Location, Value position, ValueRange values) {
                                Code code(inner, location);
                                scf::YieldOp::create(inner, location, body(code, position, values));
                              })
        .getResults();
  }
  using StateFn = llvm::function_ref<SmallVector<Value>(Code, ValueRange state)>;
  /// A loop as long as `goesOn` says so.
  ResultRange loopWhile(ValueRange state, llvm::function_ref<Value(Code, ValueRange)> goesOn,
                        StateFn body) {
    return scf::WhileOp::create(
               b, location, state.getTypes(), state,
               [&](OpBuilder &inner, Location, ValueRange values) {
                 Code code(inner, location);
                 scf::ConditionOp::create(inner, location, goesOn(code, values), values);
               },
               [&](OpBuilder &inner, Location, ValueRange values) {
                 Code code(inner, location);
                 scf::YieldOp::create(inner, location, body(code, values));
               })
        .getResults();
  }

  OpBuilder &b;
  Location location;
};

Value indexOf(Lowering &lowering, AffineExpr size) {
  return getValueOrCreateConstantIndexOp(lowering.builder, lowering.location, lowering.size(size));
}

/// The greedy selection of boxes. A class has a heap of the boxes that may be selected, the best on top;
/// each is taken from it in turn and stays where it overlaps none of those selected before it.
class BoxSelection {
public:
  BoxSelection(Lowering &lowering, SelectBoxesOp op)
      : lowering(lowering), op(op), boxes(lowering.materialize(op.getBoxes())),
        scores(lowering.materialize(op.getScores())),
        candidates(lowering.materialize(op.getCandidates())),
        limit(lowering.materialize(op.getLimit())), overlap(lowering.materialize(op.getOverlap())) {
  }

  LogicalResult bind();

private:
  struct Heap {
    Value list;   ///< numbers of boxes
    Value length; ///< of index type
  };
  Heap listCandidates(Code code, ValueRange row, Value list);
  /// Whether a box comes before another: by a higher score, of equals the first.
  Value isBefore(Code code, ValueRange row, Value a, Value b);
  /// Lets the box at a place sink below those that come before it; gives the list.
  Value sink(Code code, ValueRange row, Heap heap, Value place);
  Box box(Code code, Value batch, Value number);
  /// Whether a box overlaps one of the first `found` selected.
  Value isTaken(Code code, ValueRange row, Value selected, Value found, Value number);
  /// Selects for a row, one batch and class: gives the new selection and list.
  SmallVector<Value> selectAll(Code code, ValueRange row, ValueRange carried);

  Lowering &lowering;
  SelectBoxesOp op;
  Value boxes, scores, candidates, limit, overlap;
  Value count; ///< of boxes
  Value most;  ///< to select in a row
};

BoxSelection::Heap BoxSelection::listCandidates(Code code, ValueRange row, Value list) {
  ResultRange listed =
      code.loop(count, {list, code.index(0)}, [&](Code inner, Value i, ValueRange carried) {
        Value held = inner.put(inner.asInteger(i), carried[0], carried[1]);
        Value isIn = inner.holds(candidates, {row[0], row[1], i});
        Value next = inner.select(isIn, inner.index(1), inner.index(0));
        return SmallVector<Value>{held, inner.add(carried[1], next)};
      });
  return {listed[0], listed[1]};
}

Value BoxSelection::isBefore(Code code, ValueRange row, Value a, Value b) {
  auto score = [&](Value number) {
    Value stored = code.at(scores, {row[0], row[1], code.asIndex(number)});
    return scoreOf(code.b, code.location, stored);
  };
  Value left = score(a), right = score(b);
  Value isFirst = code.compare(arith::CmpIPredicate::slt, a, b);
  return code.either(code.isMore(left, right), code.both(code.isSame(left, right), isFirst));
}

Value BoxSelection::sink(Code code, ValueRange row, Heap heap, Value place) {
  Value goesOn = arith::ConstantOp::create(code.b, code.location, code.b.getBoolAttr(true));
  return code.loopWhile(
      {heap.list, place, goesOn}, [](Code, ValueRange carried) { return carried[2]; },
      [&](Code inner, ValueRange carried) {
        Value list = carried[0], parent = carried[1], best = parent;
        Value first = inner.add(inner.add(parent, parent), inner.index(1));
        for (Value child : {first, inner.add(first, inner.index(1))}) {
          Value isThere = inner.compare(arith::CmpIPredicate::slt, child, heap.length);
          Value looked = inner.select(isThere, child, best);
          Value isBetter = isBefore(inner, row, inner.at(list, looked), inner.at(list, best));
          best = inner.select(isBetter, looked, best);
        }
        Value up = inner.at(list, best), down = inner.at(list, parent);
        list = inner.put(down, inner.put(up, list, parent), best);
        Value hasMoved = inner.compare(arith::CmpIPredicate::ne, best, parent);
        return SmallVector<Value>{list, best, hasMoved};
      })[0];
}

Box BoxSelection::box(Code code, Value batch, Value number) {
  SmallVector<Value> corners;
  for (int64_t i = 0; i < 4; ++i) {
    Value corner = code.at(boxes, {batch, code.asIndex(number), code.index(i)});
    corners.push_back(widen(code.b, code.location, corner));
  }
  return makeBox(code.b, code.location, corners);
}

Value BoxSelection::isTaken(Code code, ValueRange row, Value selected, Value found, Value number) {
  Box asked = box(code, row[0], number);
  Value share = widen(code.b, code.location, code.at(overlap, {}));
  Value no = arith::ConstantOp::create(code.b, code.location, code.b.getBoolAttr(false));
  return code.loop(found, no, [&](Code inner, Value k, ValueRange carried) {
    Box other = box(inner, row[0], inner.at(selected, {row[0], row[1], k}));
    Value isOver = overlaps(inner.b, inner.location, other, asked, share);
    return SmallVector<Value>{inner.either(carried[0], isOver)};
  })[0];
}

SmallVector<Value> BoxSelection::selectAll(Code code, ValueRange row, ValueRange carried) {
  Heap heap = listCandidates(code, row, carried[1]);
  Value half = code.half(heap.length);
  heap.list = code.loop(half, heap.list, [&](Code inner, Value i, ValueRange lists) {
    Value place = inner.sub(inner.sub(half, i), inner.index(1));
    return SmallVector<Value>{sink(inner, row, {lists[0], heap.length}, place)};
  })[0];
  ResultRange done = code.loopWhile(
      {carried[0], heap.list, heap.length, code.index(0)},
      [&](Code inner, ValueRange state) {
        Value isAny = inner.compare(arith::CmpIPredicate::sgt, state[2], inner.index(0));
        return inner.both(isAny, inner.compare(arith::CmpIPredicate::slt, state[3], most));
      },
      [&](Code inner, ValueRange state) {
        Value selected = state[0], list = state[1], found = state[3];
        Value top = inner.at(list, inner.index(0)), last = inner.sub(state[2], inner.index(1));
        list = inner.put(inner.at(list, last), list, inner.index(0));
        list = sink(inner, row, {list, last}, inner.index(0));
        Value isOver = isTaken(inner, row, selected, found, top);
        Value kept = inner.select(isOver, inner.integer(-1), top);
        selected = inner.put(kept, selected, {row[0], row[1], found});
        Value next = inner.add(found, inner.select(isOver, inner.index(0), inner.index(1)));
        return SmallVector<Value>{selected, list, last, next};
      });
  return {done[0], done[1]};
}

LogicalResult BoxSelection::bind() {
  if (!boxes || !scores || !candidates || !limit || !overlap) {
    return failure();
  }
  OpBuilder &b = lowering.builder;
  Code code(b, lowering.location);
  Dims dims = getDims(op.getSelected().getType());
  AffineExpr length = getDims(op.getBoxes().getType())[1];
  count = indexOf(lowering, length);
  most = arith::MinSIOp::create(b, lowering.location, indexOf(lowering, dims[2]),
                                code.asIndex(code.at(limit, {})));
  Value none = lowering.filled(dims, b.getI64IntegerAttr(-1));
  Value list = lowering.filled({length}, b.getI64IntegerAttr(0));
  ResultRange all = code.loop(
      indexOf(lowering, dims[0]), {none, list}, [&](Code outer, Value batch, ValueRange state) {
        ResultRange classes = outer.loop(indexOf(lowering, dims[1]), state,
                                         [&](Code inner, Value kind, ValueRange carried) {
                                           return selectAll(inner, {batch, kind}, carried);
                                         });
        return SmallVector<Value>(classes.begin(), classes.end());
      });
  lowering.bind(op.getSelected(), all[0]);
  return success();
}

} // namespace

LogicalResult computeTruePositions(Lowering &lowering, Operation *op) {
  TruePositionsOp find = cast<TruePositionsOp>(op);
  Value x = lowering.materialize(find.getX());
  if (!x) {
    return failure();
  }
  OpBuilder &b = lowering.builder;
  Code code(b, lowering.location);
  Dims dims = getDims(find.getX().getType());
  Value positions = lowering.filled(dims, b.getI64IntegerAttr(0));
  Value count = lowering.filled({}, b.getI64IntegerAttr(0));
  ResultRange found =
      code.loop(indexOf(lowering, dims[0]), {positions, count, code.index(0)},
                [&](Code inner, Value i, ValueRange carried) {
                  Value isTrue = inner.holds(x, i);
                  // What is not true writes a zero where the next true one goes.
                  Value number = inner.select(isTrue, inner.asInteger(i), inner.integer(0));
                  Value next =
                      inner.add(carried[2], inner.select(isTrue, inner.index(1), inner.index(0)));
                  return SmallVector<Value>{inner.put(number, carried[0], carried[2]),
                                            inner.put(inner.asInteger(next), carried[1], {}), next};
                });
  lowering.bind(find.getPositions(), found[0]);
  lowering.bind(find.getCount(), found[1]);
  return success();
}

LogicalResult computeSelectBoxes(Lowering &lowering, Operation *op) {
  return BoxSelection(lowering, cast<SelectBoxesOp>(op)).bind();
}

} // namespace tenon::codegen
