// Loops whose every step depends on those before it: histograms, the true elements of a list, and
// boxes that overlap no better one. Loop nests; relies on bufferization updating their lists in
// place.
#include "compiler/codegen/common/lower/Boxes.h"
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/Heap.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// The greedy selection of boxes. A class has a heap of the boxes that may be selected, the best on
/// top; each is taken from it in turn and stays where it overlaps none of those selected before it.
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
  Heap listCandidates(Code code, ValueRange row, Value list);
  /// Whether a box comes before another: by a higher score, of equals the first.
  Value isBefore(Code code, ValueRange row, Value a, Value b);
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

Heap BoxSelection::listCandidates(Code code, ValueRange row, Value list) {
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
  auto order = [&](Code at, Value a, Value b) { return isBefore(at, row, a, b); };
  Heap heap = makeHeap(code, listCandidates(code, row, carried[1]), order);
  ResultRange done = code.loopWhile(
      {carried[0], heap.list, heap.length, code.index(0)},
      [&](Code inner, ValueRange state) {
        Value isAny = inner.compare(arith::CmpIPredicate::sgt, state[2], inner.index(0));
        return inner.both(isAny, inner.compare(arith::CmpIPredicate::slt, state[3], most));
      },
      [&](Code inner, ValueRange state) {
        Value selected = state[0], found = state[3];
        auto [top, rest] = takeTop(inner, {state[1], state[2]}, order);
        Value isOver = isTaken(inner, row, selected, found, top);
        Value kept = inner.select(isOver, inner.integer(-1), top);
        selected = inner.put(kept, selected, {row[0], row[1], found});
        Value next = inner.add(found, inner.select(isOver, inner.index(0), inner.index(1)));
        return SmallVector<Value>{selected, rest.list, rest.length, next};
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
  count = Code::sizeOf(lowering, length);
  most = arith::MinSIOp::create(b, lowering.location, Code::sizeOf(lowering, dims[2]),
                                code.asIndex(code.at(limit, {})));
  Value none = lowering.filled(dims, b.getI64IntegerAttr(-1));
  Value list = lowering.filled({length}, b.getI64IntegerAttr(0));
  ResultRange all = code.loop(Code::sizeOf(lowering, dims[0]), {none, list},
                              [&](Code outer, Value batch, ValueRange state) {
                                ResultRange classes =
                                    outer.loop(Code::sizeOf(lowering, dims[1]), state,
                                               [&](Code inner, Value kind, ValueRange carried) {
                                                 return selectAll(inner, {batch, kind}, carried);
                                               });
                                return SmallVector<Value>(classes.begin(), classes.end());
                              });
  lowering.bind(op.getSelected(), all[0]);
  return success();
}

} // namespace

Value binOf(OpBuilder &b, Location location, Value element, int64_t bits) {
  Value word = arith::BitcastOp::create(b, location, b.getI32Type(), element);
  Value shift = arith::ConstantOp::create(b, location, b.getI32IntegerAttr(32 - bits));
  Value bin = arith::ShRUIOp::create(b, location, word, shift);
  return arith::IndexCastUIOp::create(b, location, b.getIndexType(), bin);
}

LogicalResult computeHistogram(Lowering &lowering, Operation *op) {
  HistogramOp histogram = cast<HistogramOp>(op);
  Value x = lowering.materialize(histogram.getX());
  if (!x) {
    return failure();
  }
  OpBuilder &b = lowering.builder;
  Dims dims = getDims(histogram.getX().getType());
  Value zeros = lowering.filled(getDims(histogram.getCounts().getType()), b.getI32IntegerAttr(0));
  Value length = Code::sizeOf(lowering, dims[1]);
  ResultRange counts =
      Code(b, lowering.location)
          .loop(Code::sizeOf(lowering, dims[0]), zeros,
                [&](Code outer, Value row, ValueRange state) {
                  ResultRange counted =
                      outer.loop(length, state, [&](Code inner, Value i, ValueRange carried) {
                        Value bin = binOf(inner.b, inner.location, inner.at(x, {row, i}),
                                          histogram.getBits());
                        Value one = arith::ConstantOp::create(inner.b, inner.location,
                                                              inner.b.getI32IntegerAttr(1));
                        Value count = inner.add(inner.at(carried[0], {row, bin}), one);
                        return SmallVector<Value>{inner.put(count, carried[0], {row, bin})};
                      });
                  return SmallVector<Value>{counted[0]};
                });
  lowering.bind(histogram.getCounts(), counts[0]);
  return success();
}

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
      code.loop(Code::sizeOf(lowering, dims[0]), {positions, count, code.index(0)},
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
