// Sorting, the largest few, and what keeps as many elements as data says: nonzero, masks,
// non-maximum suppression.
#include "compiler/frontend/common/Selection.h"

#include "compiler/frontend/pt2/Call.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

struct Ranking {
  mlir::Value values;
  mlir::Value indices;
};

/// The k largest or smallest along an axis, in order, with their indices.
Ranking ranked(Call &c, mlir::Value x, int64_t axis, AffineExpr count, bool largest) {
  Type index = c.builder().getI64Type(), element = getElementTypeOrSelf(x);
  if (rankOf(x) == 0) {
    return {x, c.scalar(0, index)};
  }
  // There are no bools to be ranked.
  x = element.isInteger(1) ? c.cast(x, c.builder().getI32Type()) : x;
  tn::TopKOp op = c.topK(x, axis, count, largest);
  return op ? Ranking{c.cast(op.getValues(), element), op.getIndices()} : Ranking();
}

void topK(Call &c) {
  mlir::Value x = c.value("self");
  c.ignore({"sorted"});
  AffineExpr count = c.size("k");
  bool largest = c.truth("largest", true);
  if (!x || !count) {
    return;
  }
  int64_t axis = c.axis("dim", -1, rankOf(x));
  bool fits =
      rankOf(x) == 0 || c.require(tn::ConstraintKind::at_least, tn::getDims(x.getType())[axis],
                                  count, "k and its dimension");
  if (fits) {
    auto [values, indices] = ranked(c, x, axis, count, largest);
    c.setOutput(0, values);
    c.setOutput(1, indices);
  }
}

Ranking sorted(Call &c) {
  mlir::Value x = c.value("self");
  c.ignore({"stable"});
  bool descending = c.truth("descending", false);
  if (!x) {
    return {};
  }
  int64_t axis = c.axis("dim", -1, rankOf(x));
  return ranked(c, x, axis, rankOf(x) == 0 ? c.constantSize(1) : tn::getDims(x.getType())[axis],
                descending);
}
void sort(Call &c) {
  auto [values, indices] = sorted(c);
  c.setOutput(0, values);
  c.setOutput(1, indices);
}
void argSort(Call &c) { c.setOutput(sorted(c).indices); }

//===--- As many as data says ---===//

/// The coordinates of what is not zero, a list for each dim.
SmallVector<mlir::Value> positionsIn(Call &c, mlir::Value x) {
  if (!x || rankOf(x) == 0) {
    c.gap("the positions in a scalar are not supported", "give it a dim");
    return {};
  }
  return frontend::coordinates(c, frontend::truePositions(c, x), tn::getDims(x.getType()));
}
void nonZero(Call &c) {
  SmallVector<mlir::Value> columns = positionsIn(c, c.value("self"));
  c.setOutput(c.failed() ? mlir::Value() : frontend::stackLists(c, columns, 1));
}
void nonZeroLists(Call &c) {
  for (auto [i, column] : llvm::enumerate(positionsIn(c, c.value("self")))) {
    c.setOutput(static_cast<unsigned>(i), column);
  }
}

void maskedSelect(Call &c) {
  mlir::Value x = c.value("self"), mask = c.value("mask");
  if (!x || !mask) {
    return;
  }
  FailureOr<tn::Dims> dims =
      tn::broadcastDims(tn::getDims(x.getType()), tn::getDims(mask.getType()));
  if (mlir::failed(dims)) {
    return c.gap("the shapes of data and mask cannot be reconciled",
                 "declare the input shapes with --shape");
  }
  mlir::Value numbers = frontend::truePositions(c, c.broadcast(mask, *dims));
  c.setOutput(
      c.make<tn::GatherOp>(frontend::flatten(c, c.broadcast(x, *dims)), numbers, int64_t{0}));
}

/// torchvision's nms: numbers of the boxes that are kept, best first.
void nms(Call &c) {
  mlir::Value boxes = c.value("dets"), scores = c.value("scores");
  if (!boxes || !scores) {
    return;
  }
  Type index = c.builder().getI64Type(), element = getElementTypeOrSelf(boxes);
  AffineExpr one = c.constantSize(1), count = tn::getDims(boxes.getType())[0];
  mlir::Value all = c.reshape(boxes, {one, count, c.constantSize(4)});
  mlir::Value ranks = c.reshape(scores, {one, one, count});
  mlir::Value candidates = c.broadcast(c.scalar(1, c.builder().getI1Type()), {one, one, count});
  mlir::Value selected = c.makeTyped<tn::SelectBoxesOp>(
      tn::makeTensor({one, one, count}, index), all, ranks, candidates, c.sizeValue(count, index),
      c.operand("iou_threshold", element));
  mlir::Value list = frontend::flatten(c, selected);
  mlir::Value numbers =
      frontend::truePositions(c, c.compare(list, tn::Predicate::ge, c.scalar(0, index)));
  c.setOutput(c.make<tn::GatherOp>(list, numbers, int64_t{0}));
}

constexpr OpRow kSelectionOpRows[] = {
    {"aten.topk", topK},
    {"aten.sort", sort},
    {"aten.argsort", argSort},
    {"aten.nonzero", nonZero},
    {"aten.nonzero_numpy", nonZeroLists},
    {"aten.masked_select", maskedSelect},
    {"torchvision.nms", nms},
};

} // namespace

ArrayRef<OpRow> selectionRows() { return kSelectionOpRows; }

} // namespace tenon::pt2
