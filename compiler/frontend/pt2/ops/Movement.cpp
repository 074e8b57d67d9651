// Operators that move elements: permutations, broadcasts, repetitions, flips, padding.
#include "compiler/frontend/common/Padding.h"

#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

using frontend::Emitter;

void permuteTo(Call &c, SmallVector<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [i, p] : llvm::enumerate(permutation)) {
    inverse[p] = static_cast<int64_t>(i);
  }
  c.setView("self",
            {[permutation](Emitter &e, mlir::Value base) { return e.transpose(base, permutation); },
             [inverse](Emitter &e, mlir::Value, mlir::Value view) {
               return e.transpose(view, inverse);
             }});
}

void permute(Call &c) {
  mlir::Value x = c.value("self");
  SmallVector<int64_t> order = c.integers("dims");
  if (!x) {
    return;
  }
  for (int64_t &axis : order) {
    axis = c.normalizeAxis(axis, rankOf(x));
  }
  SmallVector<int64_t> sorted(order);
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)))) {
    return c.error(ErrorId::Pt2BadGraph, "its dims are not a permutation");
  }
  permuteTo(c, order);
}
void transpose(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  bool isMatrix = !c.has("dim0") && !c.has("axis0");
  int64_t a = isMatrix ? -2 : c.integer(c.has("dim0") ? "dim0" : "axis0", 0);
  int64_t b = isMatrix ? -1 : c.integer(c.has("dim1") ? "dim1" : "axis1", 0);
  if (rankOf(x) >= 2 || !isMatrix) {
    a = c.normalizeAxis(a, rankOf(x)), b = c.normalizeAxis(b, rankOf(x));
    if (!order.empty()) {
      std::swap(order[a], order[b]);
    }
  }
  permuteTo(c, order);
}
void moveDim(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  SmallVector<int64_t> from = c.integers("source"), to = c.integers("destination");
  if (from.size() != to.size() || from.size() > static_cast<size_t>(rankOf(x))) {
    return c.error(ErrorId::Pt2BadGraph, "it moves other dims than it has places for");
  }
  SmallVector<int64_t> order(rankOf(x), -1), rest;
  for (auto [source, destination] : llvm::zip_equal(from, to)) {
    source = c.normalizeAxis(source, rankOf(x));
    order[c.normalizeAxis(destination, rankOf(x))] = source;
  }
  int64_t next = 0;
  for (int64_t &axis : order) {
    while (axis < 0 && llvm::is_contained(from, next)) {
      ++next;
    }
    axis = axis < 0 ? next++ : axis;
  }
  permuteTo(c, order);
}

void expandTo(Call &c, tn::Dims dims) {
  mlir::Value x = c.value("self");
  if (!x || c.failed()) {
    return;
  }
  tn::Dims own = tn::getDims(x.getType());
  if (dims.size() < own.size()) {
    return c.error(ErrorId::Pt2BadGraph, "it expands to fewer dims than there are");
  }
  size_t added = dims.size() - own.size();
  for (size_t i = 0; i < own.size(); ++i) {
    if (tn::constantDim(dims[added + i]) == -1) {
      dims[added + i] = own[i];
    }
  }
  c.setView("self",
            {[dims](Emitter &e, mlir::Value base) { return e.broadcast(base, dims); }, nullptr});
}
void expand(Call &c) {
  c.ignore({"implicit"});
  expandTo(c, c.sizes("size"));
}
void expandAs(Call &c) {
  if (RankedTensorType other = c.type("other")) {
    expandTo(c, tn::getDims(other));
  }
}

/// x repeated along each dim: [r, d] broadcast and joined.
void repeat(Call &c) {
  mlir::Value x = c.value("self");
  tn::Dims repeats = c.sizes(c.has("repeats") ? "repeats" : "dims");
  if (!x || c.failed()) {
    return;
  }
  tn::Dims own = tn::getDims(x.getType());
  while (own.size() < repeats.size()) {
    own.insert(own.begin(), c.constantSize(1));
  }
  while (repeats.size() < own.size()) {
    repeats.insert(repeats.begin(), c.constantSize(1));
  }
  tn::Dims apart, wide, joined;
  for (auto [dim, count] : llvm::zip_equal(own, repeats)) {
    apart.append({c.constantSize(1), dim});
    wide.append({count, dim});
    joined.push_back(frontend::multiplySizes(count, dim));
  }
  if (llvm::is_contained(joined, AffineExpr())) {
    return c.gap("the repeated size cannot be written as an expression",
                 "declare the input shapes with --shape");
  }
  c.setOutput(c.reshape(c.broadcast(c.reshape(x, apart), wide), joined));
}

void repeatInterleave(Call &c) {
  mlir::Value x = c.value("self");
  const Argument *repeats = c.argument("repeats");
  if (!x || !repeats || repeats->kind == Argument::Kind::Tensor) {
    return c.gap("repeats that data decides are not supported", "repeat by a number");
  }
  c.ignore({"output_size"});
  AffineExpr count = c.size("repeats");
  if (!c.has("dim")) {
    x = c.reshape(x, {tn::elementCount(x.getContext(), tn::getDims(x.getType()))});
  }
  if (!x || !count) {
    return;
  }
  int64_t axis = c.axis("dim", 0, rankOf(x));
  tn::Dims apart = tn::getDims(x.getType()), joined = apart;
  joined[axis] = frontend::multiplySizes(joined[axis], count);
  apart.insert(apart.begin() + axis + 1, c.constantSize(1));
  tn::Dims wide = apart;
  wide[axis + 1] = count;
  if (!joined[axis]) {
    return c.gap("the repeated size cannot be written as an expression",
                 "declare the input shapes with --shape");
  }
  c.setOutput(c.reshape(c.broadcast(c.reshape(x, apart), wide), joined));
}

void flip(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  tn::Dims dims = tn::getDims(x.getType());
  SmallVector<AffineExpr> starts(dims.size(), c.constantSize(0));
  SmallVector<int64_t> steps(dims.size(), 1);
  for (int64_t axis : c.axes("dims", rankOf(x), false)) {
    starts[axis] = frontend::subtractSizes(dims[axis], c.constantSize(1));
    steps[axis] = -1;
  }
  c.setOutput(
      c.makeTyped<tn::SliceOp>(x.getType(), x, tn::symbolMap(starts, x.getContext()), steps));
}

void roll(Call &c) {
  mlir::Value x = c.value("self");
  SmallVector<int64_t> axes = c.integers("dims");
  tn::Dims shifts = c.sizes("shifts");
  if (!x || c.failed()) {
    return;
  }
  tn::Dims own = tn::getDims(x.getType());
  bool isFlat = axes.empty();
  if (isFlat) {
    x = c.reshape(x, {tn::elementCount(x.getContext(), own)});
    axes.push_back(0);
  }
  for (auto [entry, shift] : llvm::zip(axes, shifts)) {
    if (!x) {
      return;
    }
    int64_t axis = c.normalizeAxis(entry, rankOf(x));
    AffineExpr size = tn::getDims(x.getType())[axis];
    std::optional<int64_t> count = tn::constantDim(size), by = tn::constantDim(shift);
    if (!by || (!count && *by < 0 && c.symbols().bounds(size).min < -*by) ||
        (!count && *by > 0 && c.symbols().bounds(size).min < *by)) {
      return c.gap("by how much it rolls cannot be shown to be less than the size",
                   "fix shapes with --shape");
    }
    if (count && *count == 0) {
      continue;
    }
    int64_t ahead = count ? ((*by % *count) + *count) % *count : *by;
    if (ahead == 0) {
      continue;
    }
    // The last `moved` elements come first.
    AffineExpr moved =
        ahead > 0 ? c.constantSize(ahead) : frontend::addSizes(size, c.constantSize(ahead));
    AffineExpr rest = frontend::subtractSizes(size, moved);
    x = c.concat({c.sliceAxis(x, axis, rest, moved), c.sliceAxis(x, axis, c.constantSize(0), rest)},
                 axis);
  }
  c.setOutput(isFlat ? c.reshape(x, own) : x);
}

/// Pads the last dims; `list` has a begin and an end for each, the last dim first.
void padBy(Call &c, tn::PadMode mode) {
  mlir::Value x = c.value("self");
  tn::Dims list = c.sizes(c.has("pad") ? "pad" : "padding");
  if (!x || c.failed()) {
    return;
  }
  size_t rank = static_cast<size_t>(rankOf(x));
  tn::Dims begins(rank, c.constantSize(0)), ends = begins;
  for (size_t i = 0; i + 1 < list.size() && i / 2 < rank; i += 2) {
    begins[rank - 1 - i / 2] = list[i];
    ends[rank - 1 - i / 2] = list[i + 1];
  }
  mlir::Value value = c.has("value") && mode == tn::PadMode::constant
                          ? c.operand("value", getElementTypeOrSelf(x))
                          : mlir::Value();
  c.ignore({"value"});
  c.setOutput(frontend::padBy(c, x, value, begins, ends, mode));
}
void pad(Call &c) {
  std::string mode = c.text("mode", "constant");
  padBy(c, mode == "reflect"     ? tn::PadMode::reflect
           : mode == "replicate" ? tn::PadMode::edge
           : mode == "circular"  ? tn::PadMode::wrap
                                 : tn::PadMode::constant);
}
void constantPad(Call &c) { padBy(c, tn::PadMode::constant); }
void reflectionPad(Call &c) { padBy(c, tn::PadMode::reflect); }
void replicationPad(Call &c) { padBy(c, tn::PadMode::edge); }

void pixelShuffle(Call &c) {
  mlir::Value x = c.value("self");
  int64_t factor = c.integer("upscale_factor", 1);
  if (!x) {
    return;
  }
  tn::Dims dims = tn::getDims(x.getType());
  size_t n = dims.size();
  tn::Dims outer(ArrayRef<AffineExpr>(dims).drop_back(3));
  AffineExpr by = c.constantSize(factor);
  AffineExpr channels = frontend::divideProducts(c.symbols(), {dims[n - 3]}, {by, by});
  tn::Dims apart(outer), joined(outer);
  apart.append({channels, by, by, dims[n - 2], dims[n - 1]});
  joined.append({channels, frontend::multiplySizes(dims[n - 2], by),
                 frontend::multiplySizes(dims[n - 1], by)});
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(outer.size())));
  int64_t at = static_cast<int64_t>(outer.size());
  order.append({at, at + 3, at + 1, at + 4, at + 2});
  if (!channels) {
    return c.gap("the number of channels may not be a multiple of the factor",
                 "declare it with --shape");
  }
  c.setOutput(c.reshape(c.transpose(c.reshape(x, apart), order), joined));
}

/// Groups of channels change places: [g, c / g] becomes [c / g, g].
void channelShuffle(Call &c) {
  mlir::Value x = c.value("self");
  int64_t groups = c.integer("groups", 1);
  if (!x) {
    return;
  }
  tn::Dims own = tn::getDims(x.getType()), apart = own;
  apart[1] = frontend::divideSizes(c.symbols(), own[1], c.constantSize(groups));
  apart.insert(apart.begin() + 1, c.constantSize(groups));
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(apart.size())));
  std::swap(order[1], order[2]);
  c.setOutput(c.reshape(c.transpose(c.reshape(x, apart), order), own));
}

constexpr OpRow kMovementOpRows[] = {
    {"aten.permute", permute},
    {"aten.permute_copy", permute},
    {"aten.transpose", transpose},
    {"aten.transpose_copy", transpose},
    {"aten.swapaxes", transpose},
    {"aten.swapdims", transpose},
    {"aten.t", transpose},
    {"aten.t_copy", transpose},
    {"aten.numpy_T", transpose},
    {"aten.mT", transpose},
    {"aten.movedim", moveDim},
    {"aten.moveaxis", moveDim},
    {"aten.expand", expand},
    {"aten.expand_copy", expand},
    {"aten.broadcast_to", expand},
    {"aten.expand_as", expandAs},
    {"aten.repeat", repeat},
    {"aten.tile", repeat},
    {"aten.repeat_interleave", repeatInterleave},
    {"aten.flip", flip},
    {"aten.roll", roll},
    {"aten.pad", pad},
    {"aten.constant_pad_nd", constantPad},
    {"aten.reflection_pad1d", reflectionPad},
    {"aten.reflection_pad2d", reflectionPad},
    {"aten.reflection_pad3d", reflectionPad},
    {"aten.replication_pad1d", replicationPad},
    {"aten.replication_pad2d", replicationPad},
    {"aten.replication_pad3d", replicationPad},
    {"aten.pixel_shuffle", pixelShuffle},
    {"aten.channel_shuffle", channelShuffle},
};

} // namespace

ArrayRef<OpRow> movementRows() { return kMovementOpRows; }

} // namespace tenon::pt2
