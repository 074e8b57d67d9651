// Pools: windows of maxima and means, the global forms as reductions, and the p-norm as a mean of
// powers. Relies on Windows.h for the window attributes; data is NC... in ONNX.
#include "compiler/frontend/onnx/Windows.h"
#include "compiler/graph/TnRare.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Row-major numbers of spatial positions as ONNX counts them: over all of the input, the spatial
/// dims in column-major order if `columnMajor`.
Value poolIndices(NodeContext &c, Value numbers, bool columnMajor) {
  tn::Dims dims = c.dims(0);
  Type index = c.builder().getI64Type();
  AffineExpr area = c.constantSize(1);
  for (AffineExpr size : ArrayRef<AffineExpr>(dims).drop_front(2)) {
    area = multiplySizes(area, size);
  }
  AffineExpr planes = multiplySizes(dims[0], dims[1]);
  if (!area || !planes) {
    c.gap("the numbers of its positions cannot be written as expressions",
          "declare the dimensions with --shape");
    return Value();
  }
  if (columnMajor) {
    Value mirrored, rest = numbers;
    for (size_t i = dims.size(); i-- > 2;) {
      Value size = c.sizeValue(dims[i], index);
      Value own = c.make<tn::ModOp>(rest, size, false);
      rest = c.div(rest, size);
      mirrored = mirrored ? c.add(c.mul(mirrored, size), own) : own;
    }
    numbers = mirrored;
  }
  tn::Dims plane(dims.size(), c.constantSize(1));
  plane[0] = dims[0];
  plane[1] = dims[1];
  Value starts = c.mul(c.positions(planes), c.sizeValue(area, index));
  return c.add(numbers, c.reshape(starts, plane));
}

/// What no maximum is: the least number of a type.
Value lowest(NodeContext &c, Type element) {
  if (isa<FloatType>(element)) {
    return c.scalar(-std::numeric_limits<double>::infinity(), element);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  int64_t least =
      element.isUnsignedInteger() ? 0 : llvm::APInt::getSignedMinValue(width).getSExtValue();
  return c.integerConstant({least}, {}, element);
}

void maxPool(NodeContext &c) {
  c.ignore("storage_order"); // of the indices
  std::optional<Windows> w = readWindows(c, {}, false, /*padsFreely=*/!c.wantsOutput(1));
  if (!w) {
    return;
  }
  Value x =
      w->freePads.empty() ? c.value(0) : padFreely(c, *w, c.value(0), lowest(c, c.element(0)));
  Value y = c.make<tn::MaxPoolOp>(x, w->kernel, w->strides, w->pads, w->dilations,
                                  c.integer("ceil_mode", 0) != 0, false);
  c.setOutput(0, y);
  if (c.wantsOutput(1)) {
    Value numbers = c.make<tn::MaxPoolIndexOp>(x, y, w->kernel, w->strides, w->pads, w->dilations);
    c.setOutput(1, poolIndices(c, numbers, c.integer("storage_order", 0) != 0));
  }
}

void averagePool(NodeContext &c) {
  std::optional<Windows> w = readWindows(c, {}, false, /*padsFreely=*/true);
  if (!w) {
    return;
  }
  bool countsPads = c.integer("count_include_pad", 0) != 0;
  auto mean = [&](Value x) {
    return c.make<tn::AvgPoolOp>(padFreely(c, *w, x, Value()), w->kernel, w->strides, w->pads,
                                 w->dilations, c.integer("ceil_mode", 0) != 0, countsPads, false);
  };
  Value y = mean(c.value(0));
  if (!w->freePads.empty() && !countsPads) {
    // What a free pad adds counts as 0 here: the share of the data divides it out.
    tn::Dims dims = c.dims(0);
    dims[0] = dims[1] = c.constantSize(1);
    y = c.div(y, mean(c.broadcast(c.scalar(1, c.element(0)), dims)));
  }
  c.setOutput(0, y);
}

SmallVector<int64_t> spatialAxes(NodeContext &c) {
  SmallVector<int64_t> axes;
  for (int64_t axis = 2; axis < c.rank(0); ++axis) {
    axes.push_back(axis);
  }
  return axes;
}

template <tn::ReduceKind kind> void globalPool(NodeContext &c) {
  if (c.rank(0) < 2) {
    return c.error(ErrorId::OnnxBadNode, "its input has no channel dimension");
  }
  c.setOutput(0, c.reduce(kind, c.value(0), spatialAxes(c), true));
}

Value power(NodeContext &c, Value x, double exponent) {
  return c.make<tn::PowOp>(x, c.scalarLike(exponent, x));
}

/// The padding with which windows that reach beyond the data in ceil_mode lie inside of it, so that
/// they count whole: a mean leaves out of its count what lies beyond. False after a failure.
bool padToCeil(NodeContext &c, Windows &w) {
  size_t rank = w.kernel.size();
  tn::Dims dims = c.dims(0);
  for (size_t d = 0; d < rank; ++d) {
    int64_t extent = w.dilations[d] * (w.kernel[d] - 1) + 1;
    int64_t &end = w.pads[rank + d];
    // No window starts in the padding at the end: one step less one brings the last one in.
    if (end + w.strides[d] - 1 < extent) {
      end += w.strides[d] - 1;
      continue;
    }
    std::optional<int64_t> size = tn::constantDim(dims[d + 2]);
    if (!size) {
      c.gap("a size decides how many of its windows start inside the data",
            "declare it with --shape");
      return false;
    }
    int64_t least = *size + w.pads[d];
    int64_t last =
        std::min(llvm::divideCeilSigned(std::max<int64_t>(least + end - extent, 0), w.strides[d]),
                 llvm::divideFloorSigned(least - 1, w.strides[d]));
    end = std::max<int64_t>(last * w.strides[d] + extent - least, 0);
  }
  return true;
}

void lpPool(NodeContext &c) {
  std::optional<Windows> w = readWindows(c, {}, false, /*padsFreely=*/true);
  int64_t p = c.integer("p", 2);
  if (!w || p < 1) {
    return c.error(ErrorId::OnnxBadAttribute, "attribute 'p' is not positive");
  }
  double area = 1;
  for (int64_t size : w->kernel) {
    area *= static_cast<double>(size);
  }
  if (c.integer("ceil_mode", 0) != 0 && !padToCeil(c, *w)) {
    return;
  }
  Value x = c.widened(padFreely(c, *w, c.value(0), Value()));
  Value mean = c.make<tn::AvgPoolOp>(power(c, c.unary<tn::AbsOp>(x), p), w->kernel, w->strides,
                                     w->pads, w->dilations, false, true, false);
  Value norm = power(c, c.mul(mean, c.scalarLike(area, x)), 1.0 / p);
  c.setOutput(0, c.cast(norm, c.element(0)));
}

void globalLpPool(NodeContext &c) {
  int64_t p = c.integer("p", 2);
  if (p < 1 || c.rank(0) < 2) {
    return c.error(ErrorId::OnnxBadAttribute, "attribute 'p' is not positive");
  }
  Value sum = c.reduce(tn::ReduceKind::sum, power(c, c.unary<tn::AbsOp>(c.widened(c.value(0))), p),
                       spatialAxes(c), true);
  c.setOutput(0, c.cast(power(c, sum, 1.0 / p), c.element(0)));
}

constexpr Attributes kAveragePool = {
    {"auto_pad", kString},    {"ceil_mode", kInt, 10},        {"count_include_pad", kInt, 7},
    {"dilations", kInts, 19}, needs({"kernel_shape", kInts}), {"pads", kInts},
    {"strides", kInts}};
constexpr Attributes kLpPool = {{"auto_pad", kString},
                                {"ceil_mode", kInt, 18},
                                {"dilations", kInts, 18},
                                needs({"kernel_shape", kInts}),
                                {"p", kInt},
                                {"pads", kInts},
                                {"strides", kInts}};
constexpr Attributes kMaxPool = {
    {"auto_pad", kString}, needs({"kernel_shape", kInts}), {"pads", kInts}, {"strides", kInts}};
constexpr Attributes kMaxPool8 = {{"auto_pad", kString},    {"ceil_mode", kInt, 10},
                                  {"dilations", kInts, 10}, needs({"kernel_shape", kInts}),
                                  {"pads", kInts},          {"storage_order", kInt},
                                  {"strides", kInts}};

constexpr OpRow kPoolingOpRows[] = {
    {"AveragePool", 1, 1, 1, 1, averagePool, kAveragePool},
    {"GlobalAveragePool", 1, 1, 1, 1, globalPool<tn::ReduceKind::mean>},
    {"GlobalLpPool", 2, 1, 1, 1, globalLpPool, {{"p", kInt}}},
    {"GlobalMaxPool", 1, 1, 1, 1, globalPool<tn::ReduceKind::max>},
    {"LpPool", 2, 1, 1, 1, lpPool, kLpPool},
    {"MaxPool", 1, 1, 1, 1, maxPool, kMaxPool},
    {"MaxPool", 8, 1, 1, 2, maxPool, kMaxPool8},
};

} // namespace

ArrayRef<OpRow> poolingRows() { return kPoolingOpRows; }

} // namespace tenon::onnx
