// Operators that keep as many elements as data says. What they keep is listed first, with room for
// all of them; tn.take_first cuts the list where data says. Relies on the symbol that it binds
// standing in the shapes of all that follows.
#include "compiler/frontend/common/Selection.h"

#include "compiler/frontend/onnx/NodeContext.h"

#include "compiler/graph/TnRare.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

using tn::Predicate;
using tn::ReduceKind;

/// Most boxes of a class that there is room for though there may be fewer boxes at all.
constexpr int64_t kMaxPlaces = 4096;

void nonZero(NodeContext &c) {
  if (c.rank(0) == 0) {
    return c.gap("its input is a scalar", "give the input a dimension");
  }
  Value numbers = truePositions(c, c.value(0));
  c.setOutput(0, stackLists(c, coordinates(c, numbers, c.dims(0)), 0));
}

void compress(NodeContext &c) {
  Value x = c.value(0);
  int64_t axis = 0;
  if (c.hasAttribute("axis")) {
    axis = c.axis("axis", 0, c.rank(0));
  } else {
    x = flatten(c, x);
  }
  if (c.failed() || c.rank(1) != 1) {
    return c.error(ErrorId::OnnxBadNode, "its condition is not a list");
  }
  std::optional<SmallVector<int64_t>> known = c.integers(1);
  SmallVector<int64_t> kept;
  for (auto [i, value] : llvm::enumerate(known.value_or(SmallVector<int64_t>()))) {
    if (value != 0) {
      kept.push_back(i);
    }
  }
  Value indices =
      known ? c.integerConstant(kept, {static_cast<int64_t>(kept.size())}, c.builder().getI64Type())
            : truePositions(c, c.value(1));
  c.setOutput(0, c.make<tn::GatherOp>(x, indices, axis));
}

/// [batch, n, 4] with the lower corner first, of boxes as corners in any order or as center and
/// size. x and y may stand either way.
Value cornersOf(NodeContext &c, Value boxes, bool isCenter) {
  Value first = c.sliceAxis(boxes, 2, c.constantSize(0), c.constantSize(2));
  Value second = c.sliceAxis(boxes, 2, c.constantSize(2), c.constantSize(2));
  if (isCenter) {
    Value half = c.div(second, c.scalarLike(2, second));
    return c.concat({c.sub(first, half), c.add(first, half)}, 2);
  }
  return c.concat({c.min(first, second), c.max(first, second)}, 2);
}

/// An optional input of one element, as a scalar.
Value scalarInput(NodeContext &c, unsigned i, Type element) {
  return c.has(i) ? c.reshape(c.cast(c.value(i), element), {}) : c.scalar(0, element);
}

/// How many boxes of a class there is room for.
AffineExpr placesOf(NodeContext &c, AffineExpr boxes) {
  std::optional<SmallVector<int64_t>> most = c.has(2) ? c.integers(2) : SmallVector<int64_t>{0};
  if (!most || most->size() != 1) {
    return boxes;
  }
  AffineExpr places = c.constantSize(std::max<int64_t>((*most)[0], 0));
  bool isLess = c.symbols().compare(places, Comparison::LessOrEqual, boxes).value_or(false);
  return isLess || (!tn::constantDim(boxes) && (*most)[0] <= kMaxPlaces) ? places : boxes;
}

void nonMaxSuppression(NodeContext &c) {
  int64_t isCenter = c.integer("center_point_box", 0);
  if (c.rank(0) != 3 || c.rank(1) != 3) {
    return c.error(ErrorId::OnnxBadNode, "its boxes or scores do not have three dimensions");
  }
  Type index = c.builder().getI64Type();
  Value scores = c.value(1);
  Value candidates;
  if (c.has(4)) {
    Value least = c.reshape(c.value(4), {});
    candidates = c.compare(scores, Predicate::gt, least);
  } else {
    candidates = c.broadcast(c.scalar(1, c.builder().getI1Type()), c.dims(1));
  }
  tn::Dims dims = c.dims(1);
  dims[2] = placesOf(c, c.dims(0)[1]);
  Value selected = c.makeTyped<tn::SelectBoxesOp>(
      tn::makeTensor(dims, index), cornersOf(c, c.value(0), isCenter != 0), scores, candidates,
      scalarInput(c, 2, index), scalarInput(c, 3, c.element(0)));
  if (!selected) {
    return;
  }
  dims = tn::getDims(selected.getType());
  selected = flatten(c, selected);
  Value numbers = truePositions(c, c.compare(selected, Predicate::ge, c.scalar(0, index)));
  SmallVector<Value> columns = coordinates(c, numbers, dims);
  columns.back() = c.make<tn::GatherOp>(selected, numbers, int64_t{0});
  c.setOutput(0, stackLists(c, columns, 1));
}

constexpr OpRow kSelectionOpRows[] = {
    {"Compress", 9, 2, 2, 1, compress, {{"axis", kInt}}},
    {"NonMaxSuppression", 10, 2, 5, 1, nonMaxSuppression, {{"center_point_box", kInt}}},
    {"NonZero", 9, 1, 1, 1, nonZero},
};

} // namespace

ArrayRef<OpRow> selectionRows() { return kSelectionOpRows; }

} // namespace tenon::onnx
