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
constexpr int64_t kMostPlaces = 4096;

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
  return isLess || (!tn::constantDim(boxes) && (*most)[0] <= kMostPlaces) ? places : boxes;
}

void nonMaxSuppression(NodeContext &c) {
  int64_t isCenter = c.integer("center_point_box", 0);
  if (c.rank(0) != 3 || c.rank(1) != 3) {
    return c.error(ErrorId::OnnxBadNode, "its boxes or scores have no three dimensions");
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

/// How slices of x along its first dim compare, each as a list of `width` elements: [n, n] masks.
struct Order {
  Value equal; ///< slice i is slice j
  Value less;  ///< slice j stands before slice i
};

Order compareSlices(NodeContext &c, Value slices) {
  tn::Dims dims = slices ? tn::getDims(slices.getType()) : tn::Dims();
  if (dims.size() != 2) {
    return {};
  }
  tn::Dims row = {dims[0], c.constantSize(1), dims[1]};
  tn::Dims column = {c.constantSize(1), dims[0], dims[1]};
  Value left = c.reshape(slices, row), right = c.reshape(slices, column);
  tn::Dims all = {dims[0], dims[0], dims[1]}, square = {dims[0], dims[0]};
  Type index = c.builder().getI64Type();
  Value one = c.scalar(1, index), zero = c.scalar(0, index);
  Value same = c.broadcast(c.compare(left, Predicate::eq, right), all);
  Value less = c.broadcast(c.compare(right, Predicate::lt, left), all);
  if (tn::constantDim(dims[1]) == 1) {
    return {c.reshape(same, square), c.reshape(less, square)};
  }
  // The first place where they differ decides.
  Value differs = c.select(same, zero, one);
  Value differences = c.make<tn::CumsumOp>(differs, int64_t{2}, false, false);
  Value isFirst =
      c.make<tn::AndOp>(c.compare(differences, Predicate::eq, one), c.make<tn::NotOp>(same));
  Value decides = c.select(c.make<tn::AndOp>(isFirst, less), one, zero);
  Value count = c.reduce(ReduceKind::sum, differs, {2}, false);
  Value before = c.reduce(ReduceKind::sum, decides, {2}, false);
  return {c.compare(count, Predicate::eq, zero), c.compare(before, Predicate::gt, zero)};
}

void unique(NodeContext &c) {
  bool isSorted = c.integer("sorted", 1) != 0;
  Value x = c.value(0);
  int64_t axis = 0;
  if (c.hasAttribute("axis")) {
    axis = c.axis("axis", 0, c.rank(0));
  } else {
    x = flatten(c, x);
  }
  if (!x || c.failed()) {
    return;
  }
  // Slices along the axis as rows.
  tn::Dims dims = tn::getDims(x.getType());
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i) {
    order.push_back(i == 0 ? axis : i <= axis ? i - 1 : i);
  }
  AffineExpr count = dims[axis];
  dims.erase(dims.begin() + axis);
  AffineExpr width = tn::elementCount(&c.importer().context, dims);
  if (!width) {
    return c.gap("the number of elements is too large");
  }
  Order rows = compareSlices(c, c.reshape(c.transpose(x, order), {count, width}));
  Type index = c.builder().getI64Type();
  Value one = c.scalar(1, index), zero = c.scalar(0, index);
  Value numbers = c.positions(count);
  Value isEarlier =
      c.compare(c.alongAxis(numbers, 1, 2), Predicate::lt, c.alongAxis(numbers, 0, 2));
  auto countOf = [&](Value mask) {
    return c.reduce(ReduceKind::sum, c.select(mask, one, zero), {1}, false);
  };
  auto both = [&](Value a, Value b) { return c.make<tn::AndOp>(a, b); };
  // The first of equal slices stands for them.
  Value isFirst = c.compare(countOf(both(rows.equal, isEarlier)), Predicate::eq, zero);
  Value firsts = c.alongAxis(isFirst, 1, 2);
  Value inverse;
  if (isSorted) {
    inverse = countOf(both(rows.less, firsts));
  } else {
    // As many as come before the slice's own first one.
    Value earlier = countOf(both(isEarlier, firsts));
    Value own = c.select(both(rows.equal, firsts), c.alongAxis(earlier, 1, 2), zero);
    inverse = c.reduce(ReduceKind::sum, own, {1}, false);
  }
  if (!inverse) {
    return;
  }
  Value nothing = c.broadcast(zero, tn::getDims(numbers.getType()));
  Value places = c.make<tn::ScatterElementsOp>(nothing, inverse, c.select(isFirst, numbers, zero),
                                               int64_t{0}, tn::ScatterKind::max);
  Value found = c.reduce(ReduceKind::sum, c.select(isFirst, one, zero), {0}, false);
  Value indices = takeFirst(c, places, found, 0);
  c.setOutput(0, c.make<tn::GatherOp>(x, indices, axis));
  if (c.wantsOutput(1)) {
    c.setOutput(1, indices);
  }
  if (c.wantsOutput(2)) {
    c.setOutput(2, inverse);
  }
  if (c.wantsOutput(3)) {
    c.setOutput(3, c.make<tn::GatherOp>(countOf(rows.equal), indices, int64_t{0}));
  }
}

constexpr OpRow kRows[] = {
    {"Compress", 9, 2, 2, 1, compress, {{"axis", kInt}}},
    {"NonMaxSuppression", 10, 2, 5, 1, nonMaxSuppression, {{"center_point_box", kInt}}},
    {"NonZero", 9, 1, 1, 1, nonZero},
    {"Unique", 11, 1, 1, 4, unique, {{"axis", kInt}, {"sorted", kInt}}},
};

} // namespace

ArrayRef<OpRow> selectionRows() { return kRows; }

} // namespace tenon::onnx
