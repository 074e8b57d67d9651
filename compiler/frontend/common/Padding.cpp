// Pads that are numbers are one operation; pads that are sizes are rows before and behind an axis,
// or rows of the tensor itself by their positions.
#include "compiler/frontend/common/Padding.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

/// A constant before and behind one axis.
Value padOutside(Emitter &c, Value x, Value value, int64_t axis, AffineExpr begin, AffineExpr end) {
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
Value padInside(Emitter &c, Value x, tn::PadMode mode, int64_t axis, AffineExpr begin,
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
Value padAxis(Emitter &c, Value x, Value value, int64_t axis, AffineExpr begin, AffineExpr end,
              tn::PadMode mode) {
  AffineExpr size = x ? tn::getDims(x.getType())[axis] : AffineExpr();
  for (AffineExpr pad : {begin, end}) {
    c.require(tn::ConstraintKind::at_least, pad, c.constantSize(0), "the padding and 0");
    if (mode == tn::PadMode::reflect) {
      c.require(tn::ConstraintKind::at_least, size, addSizes(pad, c.constantSize(1)),
                "the dimension and the padding");
    }
  }
  if (c.failed()) {
    return Value();
  }
  begin = c.symbols().canonical(begin), end = c.symbols().canonical(end);
  return mode == tn::PadMode::constant ? padOutside(c, x, value, axis, begin, end)
                                       : padInside(c, x, mode, axis, begin, end);
}

} // namespace

Value padBy(Emitter &c, Value x, Value value, ArrayRef<AffineExpr> begins,
            ArrayRef<AffineExpr> ends, tn::PadMode mode) {
  SmallVector<int64_t> before(begins.size(), 0), behind(begins.size(), 0), symbolic;
  for (size_t axis = 0; axis < begins.size(); ++axis) {
    std::optional<int64_t> begin = tn::constantDim(begins[axis]);
    std::optional<int64_t> end = tn::constantDim(ends[axis]);
    if (begin && end) {
      before[axis] = *begin;
      behind[axis] = *end;
    } else {
      symbolic.push_back(static_cast<int64_t>(axis));
    }
  }
  x = c.make<tn::PadOp>(x, value, before, behind, mode);
  if (!symbolic.empty() && mode == tn::PadMode::constant && !value) {
    value = c.scalarLike(0, x);
  }
  for (int64_t axis : symbolic) {
    x = padAxis(c, x, value, axis, begins[axis], ends[axis], mode);
  }
  return x;
}

} // namespace tenon::frontend
