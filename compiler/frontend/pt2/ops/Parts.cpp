// Parts of tensors: slices, selections, splits. Parts are views:
// what is written to them is written into their place.
#include "compiler/frontend/pt2/Call.h"

#include "compiler/frontend/common/Selection.h"
#include "compiler/frontend/common/Slicing.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

using frontend::Emitter;

/// Elements start, start + step, ... (`size` of them) along an axis.
struct Part {
  int64_t axis = 0;
  AffineExpr start;
  AffineExpr size;
  int64_t step = 1;
};

mlir::Value take(Emitter &e, mlir::Value x, const Part &part) {
  tn::Dims dims = tn::getDims(x.getType());
  SmallVector<AffineExpr> starts(dims.size(), e.constantSize(0));
  SmallVector<int64_t> steps(dims.size(), 1);
  starts[part.axis] = e.symbols().canonical(part.start);
  steps[part.axis] = part.step;
  dims[part.axis] = e.symbols().canonical(part.size);
  return e.makeTyped<tn::SliceOp>(tn::makeTensor(dims, getElementTypeOrSelf(x)), x,
                                  tn::symbolMap(starts, x.getContext()), steps);
}

/// x with the part replaced: what lies before, the new values, what lies behind; or, with steps, by
/// the positions that they have.
mlir::Value put(Emitter &e, mlir::Value x, mlir::Value values, const Part &part) {
  tn::Dims dims = tn::getDims(x.getType());
  tn::Dims target = dims;
  target[part.axis] = part.size;
  values = e.broadcast(e.cast(values, getElementTypeOrSelf(x)), target);
  AffineExpr zero = e.constantSize(0);
  if (part.step == 1) {
    SmallVector<mlir::Value> parts;
    AffineExpr end = frontend::addSizes(part.start, part.size);
    AffineExpr rest = frontend::subtractSizes(dims[part.axis], end);
    if (!rest) {
      e.gap("the end of a slice cannot be written as an expression",
            "declare the input shapes with --shape");
      return mlir::Value();
    }
    if (tn::constantDim(part.start) != 0) {
      parts.push_back(e.sliceAxis(x, part.axis, zero, part.start));
    }
    parts.push_back(values);
    if (tn::constantDim(rest) != 0) {
      parts.push_back(e.sliceAxis(x, part.axis, end, rest));
    }
    return e.concat(parts, part.axis);
  }
  Type index = e.builder().getI64Type();
  mlir::Value places =
      e.add(e.mul(e.positions(part.size), e.scalar(static_cast<double>(part.step), index)),
            e.sizeValue(part.start, index));
  mlir::Value wide =
      e.broadcast(e.alongAxis(places, part.axis, static_cast<int64_t>(dims.size())), target);
  return e.make<tn::ScatterElementsOp>(x, wide, values, part.axis, tn::ScatterKind::none);
}

/// Result `i` is the part; with `drops`, without the axis.
void partView(Call &c, unsigned i, const Part &part, bool drops) {
  auto read = [part, drops](Emitter &e, mlir::Value base) {
    mlir::Value y = take(e, base, part);
    tn::Dims dims = y ? tn::getDims(y.getType()) : tn::Dims();
    if (drops && y) {
      dims.erase(dims.begin() + part.axis);
      y = e.reshape(y, dims);
    }
    return y;
  };
  auto write = [part, drops](Emitter &e, mlir::Value base, mlir::Value view) {
    if (drops) {
      tn::Dims dims = tn::getDims(view.getType());
      dims.insert(dims.begin() + part.axis, e.constantSize(1));
      view = e.reshape(view, dims);
    }
    return view ? put(e, base, view, part) : view;
  };
  c.setView(i, "self", {read, write});
}

std::optional<Part> slicePart(Call &c, AffineExpr dim, int64_t axis) {
  AffineExpr zero = c.constantSize(0);
  AffineExpr start = c.has("start") ? c.size("start") : zero;
  AffineExpr end = c.has("end") ? c.size("end") : dim;
  int64_t step = c.integer("step", 1);
  if (c.failed() || !start || !end) {
    return std::nullopt;
  }
  if (step <= 0) {
    c.error(ErrorId::Pt2BadGraph, "its step is not positive");
    return std::nullopt;
  }
  std::optional<frontend::AxisSlice> clamped =
      frontend::clampSlice(c.symbols(), dim, start, end, step);
  if (!clamped) {
    c.gap("the bounds of a slice cannot be shown to lie inside the dimension, or outside it",
          "declare the input shapes with --shape");
    return std::nullopt;
  }
  return Part{axis, clamped->start, clamped->size, step};
}

/// x[:end] of a dim that data decides: as many as are asked for, or as there are. Null for other
/// slices.
mlir::Value sliceFirst(Call &c, mlir::Value x, int64_t axis) {
  frontend::Symbols &symbols = c.symbols();
  AffineExpr dim = tn::getDims(x.getType())[axis];
  AffineExpr start = c.has("start") ? c.size("start") : c.constantSize(0), end = c.size("end");
  bool isFirst = end && start && tn::constantDim(start) == 0 && c.integer("step", 1) == 1 &&
                 symbols.dependsOnData(dim);
  if (!isFirst || symbols.bounds(end).min < 0 ||
      symbols.compare(end, frontend::Comparison::LessOrEqual, dim).has_value() ||
      symbols.compare(dim, frontend::Comparison::LessOrEqual, end).has_value()) {
    return mlir::Value();
  }
  Type index = c.builder().getI64Type();
  mlir::Value count = c.min(c.sizeValue(dim, index), c.sizeValue(end, index));
  return frontend::takeFirst(c, x, count, axis, {dim, end});
}

void slice(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  if (mlir::Value first = sliceFirst(c, x, axis)) {
    return c.setOutput(first);
  }
  if (std::optional<Part> part = slicePart(c, tn::getDims(x.getType())[axis], axis)) {
    partView(c, 0, *part, false);
  }
}

/// An index counted from the end if it is negative; null (after a failure) where that is not known.
AffineExpr indexOf(Call &c, AffineExpr index, AffineExpr dim) {
  tn::SymbolList::Range range = index ? c.symbols().bounds(index) : tn::SymbolList::Range{0, 0};
  if (!index || (range.min < 0 && range.max >= 0)) {
    c.gap("whether an index counts from the end depends on a size", "fix shapes with --shape");
    return AffineExpr();
  }
  index = range.max < 0 ? frontend::addSizes(index, dim) : index;
  bool fits = c.require(tn::ConstraintKind::at_least, frontend::subtractSizes(dim, index),
                        c.constantSize(1), "an index and its dimension");
  return fits ? index : AffineExpr();
}

std::optional<Part> selectPart(Call &c, mlir::Value x) {
  int64_t axis = c.axis("dim", 0, rankOf(x));
  AffineExpr index = indexOf(c, c.size("index"), tn::getDims(x.getType())[axis]);
  return index ? std::optional(Part{axis, index, c.constantSize(1), 1}) : std::nullopt;
}

void select(Call &c) {
  mlir::Value x = c.value("self");
  if (std::optional<Part> part = x ? selectPart(c, x) : std::nullopt) {
    partView(c, 0, *part, true);
  }
}
void narrow(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  AffineExpr start = c.size("start"), size = c.size("length");
  AffineExpr dim = tn::getDims(x.getType())[axis];
  start = start && c.symbols().bounds(start).max < 0 ? frontend::addSizes(start, dim) : start;
  if (start && size &&
      c.require(tn::ConstraintKind::at_least, dim, frontend::addSizes(start, size),
                "a part and its dimension")) {
    partView(c, 0, {axis, start, size, 1}, false);
  }
}

void sliceScatter(Call &c) {
  mlir::Value x = c.value("self"), values = c.value("src");
  if (!x) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  if (std::optional<Part> part = slicePart(c, tn::getDims(x.getType())[axis], axis)) {
    c.setOutput(put(c, x, values, *part));
  }
}
void selectScatter(Call &c) {
  mlir::Value x = c.value("self"), values = c.value("src");
  if (std::optional<Part> part = x ? selectPart(c, x) : std::nullopt) {
    tn::Dims dims = tn::getDims(values.getType());
    dims.insert(dims.begin() + part->axis, c.constantSize(1));
    c.setOutput(put(c, x, c.reshape(values, dims), *part));
  }
}

//===--- Splits ---===//

/// Results of these sizes, one after the other.
void splitInto(Call &c, int64_t axis, ArrayRef<AffineExpr> sizes) {
  AffineExpr start = c.constantSize(0);
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (!start || !size) {
      return c.gap("the sizes of the parts cannot be written as expressions",
                   "declare the input shapes with --shape");
    }
    partView(c, static_cast<unsigned>(i), {axis, start, size, 1}, false);
    start = frontend::addSizes(start, size);
  }
}

/// As many parts of one size as the node has results; the last may be smaller.
void splitEvenly(Call &c, mlir::Value x, int64_t axis, AffineExpr size) {
  SmallVector<AffineExpr> sizes(c.numOutputs(), size);
  AffineExpr before =
      frontend::multiplySizes(size, c.constantSize(static_cast<int64_t>(sizes.size()) - 1));
  sizes.back() = frontend::subtractSizes(tn::getDims(x.getType())[axis], before);
  splitInto(c, axis, sizes);
}

void split(Call &c) {
  mlir::Value x = c.value("self");
  if (!x || c.numOutputs() == 0) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  if (c.has("split_sizes")) {
    return splitInto(c, axis, c.sizes("split_sizes"));
  }
  const Argument *given = c.argument("split_size");
  given && given->kind == Argument::Kind::List ? splitInto(c, axis, c.sizes("split_size"))
                                               : splitEvenly(c, x, axis, c.size("split_size"));
}
void chunk(Call &c) {
  mlir::Value x = c.value("self");
  if (!x || c.numOutputs() == 0) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x)), count = c.integer("chunks", 1);
  AffineExpr dim = tn::getDims(x.getType())[axis];
  splitEvenly(c, x, axis,
              frontend::divideSizes(c.symbols(), frontend::addSizes(dim, c.constantSize(count - 1)),
                                    c.constantSize(count)));
}
void tensorSplit(Call &c) {
  mlir::Value x = c.value("self");
  if (!x || c.numOutputs() == 0) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  AffineExpr dim = tn::getDims(x.getType())[axis], start = c.constantSize(0);
  SmallVector<AffineExpr> sizes;
  if (!c.has("indices")) {
    std::optional<int64_t> size = tn::constantDim(dim);
    int64_t count = c.integer("sections", 1);
    if (count != static_cast<int64_t>(c.numOutputs())) {
      return c.error(ErrorId::Pt2BadGraph, "it has another number of results than of parts");
    }
    for (int64_t i = 0; size && i < count; ++i) {
      sizes.push_back(c.constantSize(*size / count + (i < *size % count ? 1 : 0)));
    }
    return size ? splitInto(c, axis, sizes)
                : c.gap("a split of a dimension that is not constant", "declare it with --shape");
  }
  for (AffineExpr index : c.sizes("indices")) {
    std::optional<frontend::AxisSlice> part =
        frontend::clampSlice(c.symbols(), dim, start, index, 1);
    sizes.push_back(part ? part->size : AffineExpr());
    start = part ? frontend::addSizes(part->start, part->size) : AffineExpr();
    if (!start) {
      return c.gap("the sizes of the parts cannot be written as expressions",
                   "declare the input shapes with --shape");
    }
  }
  sizes.push_back(frontend::subtractSizes(dim, start));
  splitInto(c, axis, sizes);
}
void unbind(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  for (unsigned i = 0; i < c.numOutputs(); ++i) {
    partView(c, i, {axis, c.constantSize(i), c.constantSize(1), 1}, true);
  }
}

/// [.., dim, ..] to [.., count, .., size].
mlir::Value windowsOf(Emitter &e, mlir::Value x, int64_t axis, int64_t size, int64_t step,
                      AffineExpr count) {
  Type index = e.builder().getI64Type();
  mlir::Value first = e.mul(e.positions(count), e.scalar(static_cast<double>(step), index));
  mlir::Value inner = e.alongAxis(e.positions(e.constantSize(size)), 1, 2);
  mlir::Value y = e.make<tn::GatherOp>(x, e.add(e.alongAxis(first, 0, 2), inner), axis);
  if (!y) {
    return y;
  }
  // [.., count, size, ..]: the inner dim goes last.
  SmallVector<int64_t> order;
  for (int64_t d = 0; d < rankOf(y); ++d) {
    if (d != axis + 1) {
      order.push_back(d);
    }
  }
  order.push_back(axis + 1);
  return e.transpose(y, order);
}

/// Windows of a dim as a new last dim: x.unfold(dim, size, step).
void unfold(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  int64_t axis = c.axis("dimension", 0, rankOf(x)), size = c.integer("size", 1),
          step = c.integer("step", 1);
  AffineExpr span = frontend::subtractSizes(tn::getDims(x.getType())[axis], c.constantSize(size));
  AffineExpr count = frontend::addSizes(
      frontend::divideSizes(c.symbols(), span, c.constantSize(step)), c.constantSize(1));
  if (!count) {
    return c.gap("the number of windows cannot be written as an expression",
                 "declare the input shapes with --shape");
  }
  // Windows may share elements, so that nothing can be written through them.
  auto read = [axis, size, step, count](Emitter &e, mlir::Value base) {
    return windowsOf(e, base, axis, size, step, count);
  };
  c.setView("self", {read, nullptr});
}

void copyInto(Call &c) {
  c.ignore({"non_blocking"});
  mlir::Value x = c.value("self"), values = c.value("src");
  if (x && values) {
    c.setOutput(c.broadcast(c.cast(values, getElementTypeOrSelf(x)), tn::getDims(x.getType())));
  }
}

constexpr OpRow kPartOpRows[] = {
    {"aten.slice", slice},
    {"aten.slice_copy", slice},
    {"aten.select", select},
    {"aten.select_copy", select},
    {"aten.narrow", narrow},
    {"aten.narrow_copy", narrow},
    {"aten.slice_scatter", sliceScatter},
    {"aten.select_scatter", selectScatter},
    {"aten.split", split},
    {"aten.split_with_sizes", split},
    {"aten.split_copy", split},
    {"aten.split_with_sizes_copy", split},
    {"aten.unsafe_split", split},
    {"aten.chunk", chunk},
    {"aten.unsafe_chunk", chunk},
    {"aten.tensor_split", tensorSplit},
    {"aten.unbind", unbind},
    {"aten.unbind_copy", unbind},
    {"aten.unfold", unfold},
    {"aten.unfold_copy", unfold},
    {"aten.copy", copyInto},
};

} // namespace

ArrayRef<OpRow> partRows() { return kPartOpRows; }

} // namespace tenon::pt2
