// Pad. Pads that are numbers are one operation; pads that are sizes are rows before and behind an
// axis, or rows of the tensor itself by their positions. Relies on sizes being known as
// expressions.
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMostPadding = int64_t{1} << 30;

struct Padding {
  tn::PadMode mode = tn::PadMode::constant;
  SmallVector<AffineExpr> begins, ends; ///< of each dim
  Value value;                          ///< scalar, for the mode that repeats it
};

std::optional<tn::PadMode> padMode(NodeContext &c) {
  std::string mode = c.text("mode", "constant");
  if (mode == "constant") {
    return tn::PadMode::constant;
  }
  if (mode == "reflect") {
    return tn::PadMode::reflect;
  }
  if (mode == "edge") {
    return tn::PadMode::edge;
  }
  if (mode == "wrap") {
    return tn::PadMode::wrap;
  }
  c.error(ErrorId::OnnxBadAttribute, "attribute 'mode' has an unknown value");
  return std::nullopt;
}

/// The pads as the node lists them: those before, then those behind, of the axes.
std::optional<SmallVector<AffineExpr>> listedPads(NodeContext &c) {
  if (c.opset >= 11) {
    std::optional<Sizes> sizes = c.requireSizes(1, "padding");
    return sizes ? std::optional(sizes->values) : std::nullopt;
  }
  SmallVector<AffineExpr> pads;
  for (int64_t pad : c.integerList(c.opset < 2 ? "paddings" : "pads")) {
    pads.push_back(c.constantSize(pad));
  }
  return pads;
}

/// Puts the pads of the listed axes in their places; false after a failure.
bool readPads(NodeContext &c, Padding &padding) {
  int64_t rank = c.rank(0);
  std::optional<SmallVector<AffineExpr>> pads = listedPads(c);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (c.opset >= 18 && c.has(3)) {
    axes = c.requireIntegers(3, "list of axes").value_or(SmallVector<int64_t>());
  }
  if (!pads || c.failed()) {
    return false;
  }
  if (pads->size() != 2 * axes.size()) {
    c.error(ErrorId::OnnxBadNode, "the padding does not have two entries a dimension");
    return false;
  }
  padding.begins.assign(rank, c.constantSize(0));
  padding.ends.assign(rank, c.constantSize(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = c.normalizeAxis(axes[i], rank);
    padding.begins[axis] = (*pads)[i];
    padding.ends[axis] = (*pads)[axes.size() + i];
    for (AffineExpr pad : {padding.begins[axis], padding.ends[axis]}) {
      if (std::abs(tn::constantDim(pad).value_or(0)) > kMostPadding) {
        c.error(ErrorId::OnnxShapeOverflow, "the padding is too large");
      }
    }
  }
  return !c.failed();
}

/// A constant before and behind one axis.
Value padOutside(NodeContext &c, Value x, Value value, int64_t axis, AffineExpr begin,
                 AffineExpr end) {
  SmallVector<Value> parts = {x};
  auto rows = [&](AffineExpr size) {
    tn::Dims dims = tn::getDims(x.getType());
    dims[axis] = size;
    return c.broadcast(value, dims);
  };
  if (tn::constantDim(begin) != 0) {
    parts.insert(parts.begin(), rows(begin));
  }
  if (tn::constantDim(end) != 0) {
    parts.push_back(rows(end));
  }
  return c.concat(parts, axis);
}

/// Rows of x itself before and behind one axis, by the positions that the mode gives.
Value padInside(NodeContext &c, Value x, tn::PadMode mode, int64_t axis, AffineExpr begin,
                AffineExpr end) {
  AffineExpr size = tn::getDims(x.getType())[axis];
  AffineExpr total = addSizes(addSizes(begin, size), end);
  if (!total) {
    c.gap("the size of the padded dimension cannot be written as an expression",
          "declare the input shapes with --shape");
    return Value();
  }
  Type index = c.builder().getI64Type();
  Value last = c.sizeValue(addSizes(size, c.constantSize(-1)), index);
  Value at = c.sub(c.positions(total), c.sizeValue(begin, index));
  if (mode == tn::PadMode::edge) {
    at = c.min(c.max(at, c.scalar(0, index)), last);
  } else if (mode == tn::PadMode::wrap) {
    at = c.make<tn::ModOp>(at, c.sizeValue(size, index), /*fmod=*/false);
  } else {
    at = c.sub(last, c.unary<tn::AbsOp>(c.sub(last, c.unary<tn::AbsOp>(at))));
  }
  return c.make<tn::GatherOp>(x, at, axis);
}

/// Pads of one axis that are sizes. They are not negative; what is reflected lies within x.
Value padAxis(NodeContext &c, Value x, const Padding &padding, int64_t axis) {
  for (AffineExpr pad : {padding.begins[axis], padding.ends[axis]}) {
    AffineExpr size = x ? tn::getDims(x.getType())[axis] : AffineExpr();
    c.require(tn::ConstraintKind::at_least, pad, c.constantSize(0), "the padding and 0");
    if (padding.mode == tn::PadMode::reflect) {
      c.require(tn::ConstraintKind::at_least, size, addSizes(pad, c.constantSize(1)),
                "the dimension and the padding");
    }
  }
  if (c.failed()) {
    return Value();
  }
  AffineExpr begin = c.symbols().canonical(padding.begins[axis]);
  AffineExpr end = c.symbols().canonical(padding.ends[axis]);
  return padding.mode == tn::PadMode::constant ? padOutside(c, x, padding.value, axis, begin, end)
                                               : padInside(c, x, padding.mode, axis, begin, end);
}

void pad(NodeContext &c) {
  Padding padding;
  std::optional<tn::PadMode> mode = padMode(c);
  if (!mode || !readPads(c, padding)) {
    return;
  }
  padding.mode = *mode;
  Value value = c.opset >= 11 ? c.value(2) : c.scalarLike(c.real("value", 0), c.value(0));
  if (value && cast<RankedTensorType>(value.getType()).getRank() != 0) {
    value = c.reshape(value, {});
  }
  if (*mode != tn::PadMode::constant) {
    value = Value();
  }
  SmallVector<int64_t> begins(c.rank(0), 0), ends(c.rank(0), 0), symbolic;
  for (int64_t axis = 0; axis < c.rank(0); ++axis) {
    std::optional<int64_t> begin = tn::constantDim(padding.begins[axis]);
    std::optional<int64_t> end = tn::constantDim(padding.ends[axis]);
    if (begin && end) {
      begins[axis] = *begin;
      ends[axis] = *end;
    } else {
      symbolic.push_back(axis);
    }
  }
  Value x = c.make<tn::PadOp>(c.value(0), value, begins, ends, *mode);
  if (!symbolic.empty() && *mode == tn::PadMode::constant) {
    padding.value = value ? value : c.scalarLike(0, x);
  }
  for (int64_t axis : symbolic) {
    x = padAxis(c, x, padding, axis);
  }
  c.setOutput(0, x);
}

constexpr Attributes kPad = {{"mode", kString},
                             needs({"paddings", kInts, 1, 1}),
                             needs({"pads", kInts, 2}),
                             {"value", kFloat}};

constexpr OpRow kRows[] = {
    {"Pad", 1, 1, 1, 1, pad, kPad},
    {"Pad", 11, 2, 3, 1, pad, {{"mode", kString}}},
    {"Pad", 18, 2, 4, 1, pad, {{"mode", kString}}},
};

} // namespace

ArrayRef<OpRow> padRows() { return kRows; }

} // namespace tenon::onnx
