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
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, location, condition, x, y);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, location, predicate, x, y);
  }
  Value isMore(Value x, Value y) {
    return arith::CmpFOp::create(b, location, arith::CmpFPredicate::OGT, x, y);
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

  OpBuilder &b;
  Location location;
};

Value indexOf(Lowering &lowering, AffineExpr size) {
  return getValueOrCreateConstantIndexOp(lowering.builder, lowering.location, lowering.size(size));
}

/// The greedy selection of boxes. A class has a list of the boxes that may still be selected; each
/// step takes the best of them and leaves those in the list that it does not overlap much.
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
  struct Listed {
    Value list;
    Value length; ///< of index type
  };
  Listed listCandidates(Code code, Value batch, Value kind, Value list);
  /// The place of the best box, which the list has; of equals the first.
  Value best(Code code, Value batch, Value kind, Listed listed);
  Listed dropOverlapping(Code code, Value batch, Value chosen, Listed listed);
  Box box(Code code, Value batch, Value number);
  /// Selects for one batch and class: gives the new selection and list.
  SmallVector<Value> selectAll(Code code, Value batch, Value kind, ValueRange carried);

  Lowering &lowering;
  SelectBoxesOp op;
  Value boxes, scores, candidates, limit, overlap;
  Value count; ///< of boxes
  Value places, most;
};

BoxSelection::Listed BoxSelection::listCandidates(Code code, Value batch, Value kind, Value list) {
  ResultRange listed =
      code.loop(count, {list, code.index(0)}, [&](Code inner, Value i, ValueRange carried) {
        Value held = inner.put(inner.asInteger(i), carried[0], carried[1]);
        Value isIn = inner.holds(candidates, {batch, kind, i});
        Value next = inner.select(isIn, inner.index(1), inner.index(0));
        return SmallVector<Value>{held, inner.add(carried[1], next)};
      });
  return {listed[0], listed[1]};
}

Value BoxSelection::best(Code code, Value batch, Value kind, Listed listed) {
  auto score = [&](Code &at, Value place) {
    Value number = at.asIndex(at.at(listed.list, place));
    return scoreOf(at.b, at.location, at.at(scores, {batch, kind, number}));
  };
  ResultRange found =
      code.loop(listed.length, {code.index(0), score(code, code.index(0))},
                [&](Code inner, Value i, ValueRange carried) {
                  Value here = score(inner, i);
                  Value isBetter = inner.isMore(here, carried[1]);
                  return SmallVector<Value>{inner.select(isBetter, i, carried[0]),
                                            inner.select(isBetter, here, carried[1])};
                });
  return found[0];
}

Box BoxSelection::box(Code code, Value batch, Value number) {
  SmallVector<Value> corners;
  for (int64_t i = 0; i < 4; ++i) {
    Value corner = code.at(boxes, {batch, number, code.index(i)});
    corners.push_back(widen(code.b, code.location, corner));
  }
  return makeBox(code.b, code.location, corners);
}

BoxSelection::Listed BoxSelection::dropOverlapping(Code code, Value batch, Value chosen,
                                                   Listed listed) {
  Box taken = box(code, batch, code.asIndex(chosen));
  Value allowed = widen(code.b, code.location, code.at(overlap, {}));
  ResultRange rest = code.loop(
      listed.length, {listed.list, code.index(0)}, [&](Code inner, Value i, ValueRange carried) {
        Value number = inner.at(carried[0], i);
        Value isOther = inner.compare(arith::CmpIPredicate::ne, number, chosen);
        Value isOver = overlaps(inner.b, inner.location, taken,
                                box(inner, batch, inner.asIndex(number)), allowed);
        Value stays = inner.select(isOver, inner.index(0), inner.index(1));
        Value next = inner.select(isOther, stays, inner.index(0));
        Value held = inner.put(number, carried[0], carried[1]);
        return SmallVector<Value>{held, inner.add(carried[1], next)};
      });
  return {rest[0], rest[1]};
}

SmallVector<Value> BoxSelection::selectAll(Code code, Value batch, Value kind, ValueRange carried) {
  Listed listed = listCandidates(code, batch, kind, carried[1]);
  ResultRange done = code.loop(
      most, {carried[0], listed.list, listed.length}, [&](Code inner, Value k, ValueRange state) {
        Listed open{state[1], state[2]};
        Value place = best(inner, batch, kind, open);
        Value chosen = inner.at(open.list, place);
        Value isAny = inner.compare(arith::CmpIPredicate::ne, open.length, inner.index(0));
        Value selected =
            inner.put(inner.select(isAny, chosen, inner.integer(-1)), state[0], {batch, kind, k});
        Listed left = dropOverlapping(inner, batch, chosen, open);
        return SmallVector<Value>{selected, left.list, left.length};
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
  places = indexOf(lowering, dims[2]);
  // Where there are no boxes, the list has no first one to look at.
  Value isAny = code.compare(arith::CmpIPredicate::sgt, count, code.index(0));
  Value allowed = code.asIndex(code.at(limit, {}));
  Value fewer = arith::MinSIOp::create(b, lowering.location, places, allowed);
  Value atLeastNone = arith::MaxSIOp::create(b, lowering.location, fewer, code.index(0));
  most = code.select(isAny, atLeastNone, code.index(0));
  Value none = lowering.filled(dims, b.getI64IntegerAttr(-1));
  Value list = lowering.filled({length}, b.getI64IntegerAttr(0));
  ResultRange all = code.loop(
      indexOf(lowering, dims[0]), {none, list}, [&](Code outer, Value batch, ValueRange state) {
        ResultRange classes = outer.loop(indexOf(lowering, dims[1]), state,
                                         [&](Code inner, Value kind, ValueRange carried) {
                                           return selectAll(inner, batch, kind, carried);
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
