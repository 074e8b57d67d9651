// Unique: what is equal becomes one. Lists are sorted; slices of several elements, which have no
// order of their own here, are each compared with all others. Relies on tn.top_k keeping the order
// of equal elements.
#include "compiler/frontend/common/Selection.h"

#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

using tn::Predicate;
using tn::ReduceKind;

/// Of n elements or slices: where the first of each group of equal ones stands, the number of each
/// one's group, and how many a group has.
struct Groups {
  Value firsts;  ///< [groups]
  Value inverse; ///< [n]
  Value counts;  ///< [groups]
};

/// Positions in the order of the elements of a list, and whether a group begins there.
struct Sorted {
  Value places; ///< [n]: which element stands there
  Value begins; ///< [n] of i1
};

Sorted sort(NodeContext &c, Value x) {
  Type index = c.builder().getI64Type();
  // A sort has no order of truth values.
  Value keys = c.element(0).isInteger(1) ? c.cast(x, c.builder().getI32Type()) : x;
  if (!keys) {
    return {};
  }
  AffineExpr count = tn::getDims(keys.getType())[0];
  tn::TopKOp sorted = c.topK(keys, /*axis=*/0, count, /*largest=*/false);
  if (!sorted) {
    return {};
  }
  Value one = c.scalar(1, index), zero = c.scalar(0, index), numbers = c.positions(count);
  Value before =
      c.make<tn::GatherOp>(sorted.getValues(), c.max(c.sub(numbers, one), zero), int64_t{0});
  Value differs = c.compare(sorted.getValues(), Predicate::ne, before);
  if (isa<FloatType>(c.element(0))) {
    // NaNs, which stand last, are one group, as in the operator's reference.
    differs = c.make<tn::AndOp>(differs, c.compare(before, Predicate::eq, before));
  }
  Value isFirst = c.compare(numbers, Predicate::eq, zero);
  return {sorted.getIndices(), c.make<tn::OrOp>(differs, isFirst)};
}

Groups groupElements(NodeContext &c, Value x, bool isSorted) {
  Sorted sorted = sort(c, x);
  if (!sorted.begins) {
    return {};
  }
  Type index = c.builder().getI64Type();
  Value one = c.scalar(1, index), zero = c.scalar(0, index);
  tn::Dims dims = tn::getDims(sorted.places.getType());
  Value nothing = c.broadcast(zero, dims);
  auto numbered = [&](Value ones) {
    return c.sub(c.unary<tn::CumsumOp>(ones, int64_t{0}, false, false), one);
  };
  auto put = [&](Value places, Value values, tn::ScatterKind kind) {
    return c.make<tn::ScatterElementsOp>(nothing, places, values, int64_t{0}, kind);
  };
  Value group = numbered(c.select(sorted.begins, one, zero));
  Value begins = truePositions(c, sorted.begins);
  Groups result;
  result.firsts = c.make<tn::GatherOp>(sorted.places, begins, int64_t{0});
  if (!isSorted) {
    // Groups are numbered as their first elements follow in the list.
    Value firsts =
        put(result.firsts, c.broadcast(one, tn::getDims(begins.getType())), tn::ScatterKind::none);
    Value number = c.make<tn::GatherOp>(numbered(firsts), result.firsts, int64_t{0});
    group = c.make<tn::GatherOp>(number, group, int64_t{0});
    result.firsts = truePositions(c, firsts);
  }
  result.inverse = put(sorted.places, group, tn::ScatterKind::none);
  Value counts = put(group, c.broadcast(one, dims), tn::ScatterKind::add);
  Value numbers = c.make<tn::GatherOp>(result.inverse, result.firsts, int64_t{0});
  result.counts = c.make<tn::GatherOp>(counts, numbers, int64_t{0});
  return result;
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
  tn::Dims all = {dims[0], dims[0], dims[1]};
  Type index = c.builder().getI64Type();
  Value one = c.scalar(1, index), zero = c.scalar(0, index);
  Value same = c.broadcast(c.compare(left, Predicate::eq, right), all);
  Value less = c.broadcast(c.compare(right, Predicate::lt, left), all);
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

Groups groupSlices(NodeContext &c, Value slices, bool isSorted) {
  Order rows = compareSlices(c, slices);
  if (!rows.equal) {
    return {};
  }
  Type index = c.builder().getI64Type();
  Value one = c.scalar(1, index), zero = c.scalar(0, index);
  Value numbers = c.positions(tn::getDims(slices.getType())[0]);
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
  Value nothing = c.broadcast(zero, tn::getDims(numbers.getType()));
  Value places = c.make<tn::ScatterElementsOp>(nothing, inverse, c.select(isFirst, numbers, zero),
                                               int64_t{0}, tn::ScatterKind::max);
  Value found = c.reduce(ReduceKind::sum, c.select(isFirst, one, zero), {0}, false);
  Value kept = takeFirst(c, places, found, 0);
  return {kept, inverse, c.make<tn::GatherOp>(countOf(rows.equal), kept, int64_t{0})};
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
  Groups groups = tn::constantDim(width) == 1
                      ? groupElements(c, c.reshape(x, {count}), isSorted)
                      : groupSlices(c, c.reshape(c.transpose(x, order), {count, width}), isSorted);
  if (!groups.firsts) {
    return;
  }
  c.setOutput(0, c.make<tn::GatherOp>(x, groups.firsts, axis));
  std::array<Value, 3> others = {groups.firsts, groups.inverse, groups.counts};
  for (auto [i, output] : llvm::enumerate(others)) {
    if (c.wantsOutput(i + 1)) {
      c.setOutput(i + 1, output);
    }
  }
}

/// ONNX Runtime's: of a list, in the order of the first of each.
void uniqueOfList(NodeContext &c) {
  if (c.rank(0) != 1) {
    return c.error(ErrorId::OnnxBadNode, "its input is not a list");
  }
  Value x = c.value(0);
  Groups groups = groupElements(c, x, /*isSorted=*/false);
  if (groups.firsts) {
    c.setOutput(0, c.make<tn::GatherOp>(x, groups.firsts, int64_t{0}));
    c.setOutput(1, groups.inverse);
    c.setOutput(2, groups.counts);
  }
}

constexpr OpRow kUniqueOpRows[] = {
    {"Unique", 1, 1, 1, 3, uniqueOfList, {}, kMicrosoft},
    {"Unique", 11, 1, 1, 4, unique, {{"axis", kInt}, {"sorted", kInt}}},
};

} // namespace

ArrayRef<OpRow> uniqueRows() { return kUniqueOpRows; }

} // namespace tenon::onnx
