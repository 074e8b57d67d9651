// Reading and writing by index: embedding, gather and scatter, advanced indexing.
#include "compiler/frontend/common/Selection.h"
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

void embedding(Call &c) {
  c.ignore({"padding_idx", "scale_grad_by_freq", "sparse"});
  c.setOutput(c.make<tn::GatherOp>(c.value("weight"), c.value("indices"), int64_t{0}));
}
void indexSelect(Call &c) {
  mlir::Value x = c.value("self"), index = c.value("index");
  if (!x || !index) {
    return;
  }
  if (rankOf(x) == 0) {
    return c.setOutput(x);
  }
  if (rankOf(index) == 0) {
    index = c.reshape(index, {c.constantSize(1)});
  }
  c.setOutput(c.make<tn::GatherOp>(x, index, c.axis("dim", 0, rankOf(x))));
}
void gather(Call &c) {
  c.ignore({"sparse_grad"});
  mlir::Value x = c.value("self"), index = c.value("index");
  if (!x || !index) {
    return;
  }
  if (rankOf(x) == 0) {
    return c.setOutput(c.broadcast(x, tn::getDims(index.getType())));
  }
  c.setOutput(c.make<tn::GatherElementsOp>(x, index, c.axis("dim", 0, rankOf(x))));
}

/// The part of the updates that an index of this shape reads, from the beginning of each dim.
mlir::Value fitted(Call &c, mlir::Value updates, mlir::Value index) {
  tn::Dims dims = tn::getDims(index.getType());
  for (int64_t d = 0; updates && d < static_cast<int64_t>(dims.size()); ++d) {
    if (!tn::sameDim(dims[d], tn::getDims(updates.getType())[d])) {
      updates = c.sliceAxis(updates, d, c.constantSize(0), dims[d]);
    }
  }
  return updates;
}

void scatterAs(Call &c, tn::ScatterKind kind) {
  mlir::Value x = c.value("self"), index = c.value("index");
  if (!x || !index || rankOf(x) == 0) {
    return c.gap("scatter into a scalar is not supported", "give it a dim");
  }
  Type element = getElementTypeOrSelf(x);
  mlir::Value updates = c.has("value")
                            ? c.broadcast(c.operand("value", element), tn::getDims(index.getType()))
                            : fitted(c, c.operand("src", element), index);
  c.setOutput(c.make<tn::ScatterElementsOp>(x, index, updates, c.axis("dim", 0, rankOf(x)), kind));
}
std::optional<tn::ScatterKind> scatterKind(Call &c, StringRef word) {
  if (word == "add" || word == "sum") {
    return tn::ScatterKind::add;
  }
  if (word == "multiply" || word == "prod") {
    return tn::ScatterKind::mul;
  }
  if (word == "amax" || word == "amin") {
    return word == "amax" ? tn::ScatterKind::max : tn::ScatterKind::min;
  }
  c.gap("scatter with reduction '" + word + "' is not supported", "use sum and divide by counts");
  return std::nullopt;
}
void scatter(Call &c) {
  std::string word = c.text("reduce", "");
  std::optional<tn::ScatterKind> kind = word.empty() ? tn::ScatterKind::none : scatterKind(c, word);
  if (kind) {
    scatterAs(c, *kind);
  }
}
void scatterAdd(Call &c) { scatterAs(c, tn::ScatterKind::add); }

/// What a kind of combination begins with where the target's own elements do not count.
double neutral(tn::ScatterKind kind) {
  return kind == tn::ScatterKind::mul   ? 1
         : kind == tn::ScatterKind::max ? -std::numeric_limits<double>::infinity()
         : kind == tn::ScatterKind::min ? std::numeric_limits<double>::infinity()
                                        : 0;
}
void scatterReduce(Call &c) {
  mlir::Value x = c.value("self"), index = c.value("index"), updates = c.value("src");
  std::string word = c.text("reduce", "sum");
  bool includes = c.truth("include_self", true), isMean = word == "mean";
  std::optional<tn::ScatterKind> kind = isMean ? tn::ScatterKind::add : scatterKind(c, word);
  if (!x || !index || !updates || !kind) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  updates = fitted(c, updates, index);
  mlir::Value ones = c.broadcast(c.scalarLike(1, x), tn::getDims(index.getType()));
  mlir::Value none = c.broadcast(c.scalarLike(0, x), tn::getDims(x.getType()));
  mlir::Value counts = c.make<tn::ScatterElementsOp>(none, index, ones, axis, tn::ScatterKind::add);
  mlir::Value isHit = c.compare(counts, tn::Predicate::gt, c.scalarLike(0, x));
  mlir::Value start = includes ? x : c.select(isHit, c.scalarLike(neutral(*kind), x), x);
  mlir::Value y = c.make<tn::ScatterElementsOp>(start, index, updates, axis, *kind);
  if (isMean) {
    mlir::Value divisor =
        includes ? c.add(counts, c.scalarLike(1, x)) : c.max(counts, c.scalarLike(1, x));
    y = c.select(isHit, c.div(y, divisor), x);
  }
  c.setOutput(y);
}

//===--- Advanced indexing ---===//

/// The indices of `index.Tensor`: lists of positions for some axes, broadcast against each other.
struct AdvancedIndex {
  SmallVector<int64_t> axes;
  SmallVector<mlir::Value> positions; ///< i64, all of one shape
  tn::Dims dims;                      ///< of that shape
  bool isAdjacent = true;
};

/// x with the axes first, and the order that brings it back.
mlir::Value axesFirst(Call &c, mlir::Value x, ArrayRef<int64_t> axes,
                      SmallVectorImpl<int64_t> &order) {
  order.assign(axes.begin(), axes.end());
  for (int64_t d = 0; d < rankOf(x); ++d) {
    if (!llvm::is_contained(axes, d)) {
      order.push_back(d);
    }
  }
  return c.transpose(x, order);
}

/// Positions counted from the end become ones from the beginning.
mlir::Value normalized(Call &c, mlir::Value index, AffineExpr dim) {
  Type wide = c.builder().getI64Type();
  index = c.cast(index, wide);
  mlir::Value isNegative = c.compare(index, tn::Predicate::lt, c.scalar(0, wide));
  return c.select(isNegative, c.add(index, c.sizeValue(dim, wide)), index);
}

/// A mask stands for the positions in it that hold, one list for each of its dims.
SmallVector<mlir::Value> withoutMasks(Call &c, ArrayRef<mlir::Value> given) {
  SmallVector<mlir::Value> result;
  for (mlir::Value index : given) {
    if (index && getElementTypeOrSelf(index).isInteger(1) && rankOf(index) > 0) {
      result.append(frontend::coordinates(c, frontend::truePositions(c, index),
                                          tn::getDims(index.getType())));
    } else {
      result.push_back(index);
    }
  }
  return result;
}

std::optional<AdvancedIndex> advancedIndex(Call &c, mlir::Value x) {
  AdvancedIndex result;
  SmallVector<mlir::Value> given = c.optionalValues("indices");
  tn::Dims own = x ? tn::getDims(x.getType()) : tn::Dims();
  given = withoutMasks(c, given);
  if (!x || c.failed() || given.size() > own.size()) {
    c.gap("its indices do not fit its operand", "index with integers");
    return std::nullopt;
  }
  for (auto [axis, index] : llvm::enumerate(given)) {
    if (!index) {
      continue;
    }
    FailureOr<tn::Dims> wider = tn::broadcastDims(result.dims, tn::getDims(index.getType()));
    if (mlir::failed(wider)) {
      c.gap("the shapes of its indices cannot be reconciled",
            "declare the input shapes with --shape");
      return std::nullopt;
    }
    result.dims = *wider;
    int64_t at = static_cast<int64_t>(axis);
    result.isAdjacent &= result.axes.empty() || result.axes.back() == at - 1;
    result.axes.push_back(at);
    result.positions.push_back(normalized(c, index, own[axis]));
  }
  for (mlir::Value &index : result.positions) {
    index = c.broadcast(index, result.dims);
  }
  return c.failed() || result.axes.empty() ? std::nullopt : std::optional(std::move(result));
}

/// The positions of all axes as tuples, [dims..., axes].
mlir::Value tuples(Call &c, const AdvancedIndex &index) {
  SmallVector<mlir::Value> columns;
  tn::Dims dims = index.dims;
  dims.push_back(c.constantSize(1));
  for (mlir::Value positions : index.positions) {
    columns.push_back(c.reshape(positions, dims));
  }
  return llvm::is_contained(columns, mlir::Value())
             ? mlir::Value()
             : c.concat(columns, static_cast<int64_t>(dims.size()) - 1);
}

void index(Call &c) {
  mlir::Value x = c.value("self");
  std::optional<AdvancedIndex> index = advancedIndex(c, x);
  if (!index) {
    return;
  }
  if (index->axes.size() == 1) {
    return c.setOutput(c.make<tn::GatherOp>(x, index->positions[0], index->axes[0]));
  }
  SmallVector<int64_t> order;
  mlir::Value first = axesFirst(c, x, index->axes, order);
  mlir::Value y = c.make<tn::GatherNdOp>(first, tuples(c, *index), int64_t{0});
  int64_t before = index->axes[0], width = static_cast<int64_t>(index->dims.size());
  if (!y || !index->isAdjacent || before == 0) {
    return c.setOutput(y);
  }
  // The new dims stand where the indexed ones stood.
  SmallVector<int64_t> back;
  for (int64_t d = 0; d < before; ++d) {
    back.push_back(width + d);
  }
  for (int64_t d = 0; d < width; ++d) {
    back.push_back(d);
  }
  for (int64_t d = width + before; d < rankOf(y); ++d) {
    back.push_back(d);
  }
  c.setOutput(c.transpose(y, back));
}

/// A single mask: each element that it selects becomes the value, which is one number.
bool putByMask(Call &c, mlir::Value x, bool accumulates) {
  SmallVector<mlir::Value> given = c.optionalValues("indices");
  mlir::Value values = c.value("values");
  if (given.size() != 1 || !given[0] || !getElementTypeOrSelf(given[0]).isInteger(1) || !values ||
      accumulates) {
    return false;
  }
  if (tn::constantDim(tn::elementCount(x.getContext(), tn::getDims(values.getType()))) != 1) {
    return false;
  }
  tn::Dims dims = tn::getDims(given[0].getType());
  dims.resize(static_cast<size_t>(rankOf(x)), c.constantSize(1));
  c.setOutput(c.select(c.reshape(given[0], dims),
                       c.reshape(c.cast(values, getElementTypeOrSelf(x)), {}), x));
  return true;
}

void indexPut(Call &c) {
  c.ignore({"unsafe"});
  mlir::Value x = c.value("self"), values = c.value("values");
  bool accumulates = c.truth("accumulate", false);
  if (!x || !values || putByMask(c, x, accumulates)) {
    return;
  }
  std::optional<AdvancedIndex> index = advancedIndex(c, x);
  if (!index) {
    return;
  }
  SmallVector<int64_t> order;
  mlir::Value first = axesFirst(c, x, index->axes, order);
  tn::Dims target = index->dims, rest = first ? tn::getDims(first.getType()) : tn::Dims();
  if (!first) {
    return;
  }
  int64_t before = index->axes[0], width = static_cast<int64_t>(index->dims.size());
  target.append(rest.begin() + static_cast<int64_t>(index->axes.size()), rest.end());
  values = c.cast(values, getElementTypeOrSelf(x));
  if (index->isAdjacent && before != 0) {
    // Values have the indexed dims in their place: bring these first.
    tn::Dims inPlace(ArrayRef<AffineExpr>(target).slice(width, before));
    inPlace.append(index->dims);
    inPlace.append(target.begin() + width + before, target.end());
    values = c.broadcast(values, inPlace);
    SmallVector<int64_t> forth;
    for (int64_t d = 0; d < width; ++d) {
      forth.push_back(before + d);
    }
    for (int64_t d = 0; d < before; ++d) {
      forth.push_back(d);
    }
    for (int64_t d = before + width; d < static_cast<int64_t>(target.size()); ++d) {
      forth.push_back(d);
    }
    values = values ? c.transpose(values, forth) : values;
  }
  mlir::Value y =
      c.make<tn::ScatterNdOp>(first, tuples(c, *index), c.broadcast(values, target),
                              accumulates ? tn::ScatterKind::add : tn::ScatterKind::none);
  SmallVector<int64_t> inverse(order.size());
  for (auto [i, p] : llvm::enumerate(order)) {
    inverse[p] = static_cast<int64_t>(i);
  }
  c.setOutput(y ? c.transpose(y, inverse) : y);
}

/// Rows of an axis written, added to or filled, by a list of positions.
void indexRows(Call &c, tn::ScatterKind kind) {
  mlir::Value x = c.value("self"), index = c.value("index");
  if (!x || !index || rankOf(x) == 0) {
    return c.gap("indexing a scalar is not supported", "give it a dim");
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  Type element = getElementTypeOrSelf(x);
  if (rankOf(index) == 0) {
    index = c.reshape(index, {c.constantSize(1)});
  }
  mlir::Value positions = normalized(c, index, tn::getDims(x.getType())[axis]);
  tn::Dims target = tn::getDims(x.getType());
  target[axis] = positions ? tn::getDims(positions.getType())[0] : target[axis];
  mlir::Value updates = c.broadcast(
      c.has("value") ? c.operand("value", element) : c.operand("source", element), target);
  if (kind == tn::ScatterKind::add && c.has("alpha") && c.real("alpha", 1) != 1) {
    updates = c.mul(updates, c.operand("alpha", element));
  }
  c.ignore({"alpha"});
  // Whole rows by tuples of one position, with the axis first.
  SmallVector<int64_t> order, forth;
  mlir::Value first = axesFirst(c, x, {axis}, order);
  updates = updates ? axesFirst(c, updates, {axis}, forth) : updates;
  mlir::Value rows =
      positions ? c.reshape(positions, {target[axis], c.constantSize(1)}) : positions;
  mlir::Value y = c.make<tn::ScatterNdOp>(first, rows, updates, kind);
  SmallVector<int64_t> inverse(order.size());
  for (auto [i, p] : llvm::enumerate(order)) {
    inverse[p] = static_cast<int64_t>(i);
  }
  c.setOutput(y ? c.transpose(y, inverse) : y);
}
void indexCopy(Call &c) { indexRows(c, tn::ScatterKind::none); }
void indexAdd(Call &c) { indexRows(c, tn::ScatterKind::add); }

constexpr OpRow kIndexingOpRows[] = {
    {"aten.embedding", embedding},
    {"aten.index_select", indexSelect},
    {"aten.gather", gather},
    {"aten.scatter", scatter},
    {"aten.scatter_add", scatterAdd},
    {"aten.scatter_reduce", scatterReduce},
    {"aten.index", index},
    {"aten._unsafe_index", index},
    {"aten.index_put", indexPut},
    {"aten._unsafe_index_put", indexPut},
    {"aten.index_copy", indexCopy},
    {"aten.index_fill", indexCopy},
    {"aten.index_add", indexAdd},
};

} // namespace

ArrayRef<OpRow> indexingRows() { return kIndexingOpRows; }

} // namespace tenon::pt2
