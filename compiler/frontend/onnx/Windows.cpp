// Checks window attributes and resolves auto_pad to explicit padding.
// Relies on "SAME" padding of a symbolic dim being constant if its remainder by the stride is.
#include "compiler/frontend/onnx/Windows.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 31;

bool inRange(ArrayRef<int64_t> values, int64_t least) {
  return llvm::all_of(values, [&](int64_t value) { return value >= least && value < kMaxWindow; });
}

/// "SAME" makes the result ceil(in / stride) long: so much padding for `remainder` = in mod stride.
int64_t samePadding(int64_t remainder, int64_t window, int64_t stride) {
  return std::max<int64_t>(0, window - (remainder == 0 ? stride : remainder));
}

/// Resolves "SAME" for spatial dim `i`; false after a failure.
bool padSame(NodeContext &c, Windows &w, size_t i, bool isUpper, bool padsFreely) {
  AffineExpr dim = c.dims(0)[2 + i];
  int64_t window = (w.kernel[i] - 1) * w.dilations[i] + 1, stride = w.strides[i];
  AffineExpr remainder =
      stride == 1 ? c.constantSize(0) : remainderSizes(c.symbols(), dim, c.constantSize(stride));
  std::optional<int64_t> known = remainder ? tn::constantDim(remainder) : std::nullopt;
  if (!known && window == 1) {
    known = 0; // no padding in any case
  }
  if (!known && window >= stride && padsFreely && remainder) {
    int64_t most = window - 1;
    AffineExpr past = (dim - 1) % stride;
    AffineExpr total = c.constantSize(most) - past;
    AffineExpr begin = (isUpper ? total : total + 1).floorDiv(2);
    w.pads[i] = w.pads[w.kernel.size() + i] = 0;
    w.freePads.push_back({static_cast<int64_t>(2 + i), begin, total, most});
    return true;
  }
  if (!known && !c.require(tn::ConstraintKind::divisible, dim, c.constantSize(stride),
                           "the size under strided windows with auto_pad, and the stride")) {
    return false;
  }
  int64_t total = samePadding(known.value_or(0), window, stride);
  w.pads[i] = isUpper ? total / 2 : total - total / 2;
  w.pads[w.kernel.size() + i] = total - w.pads[i];
  return true;
}

} // namespace

std::optional<Windows> readWindows(NodeContext &c, ArrayRef<int64_t> kernel, bool transposed,
                                   bool padsFreely) {
  int64_t spatial = c.rank(0) - 2;
  if (spatial < 1 || spatial > 3) {
    if (spatial < 1) {
      c.error(ErrorId::OnnxBadNode, "its input has no spatial dimensions");
    } else {
      c.gap("only one to three spatial dimensions are supported", "split the dimensions");
    }
    return std::nullopt;
  }
  Windows w;
  SmallVector<int64_t> ones(spatial, 1);
  w.kernel = c.integerList("kernel_shape", kernel);
  w.strides = c.integerList("strides", ones);
  w.dilations = c.integerList("dilations", ones);
  w.pads = c.integerList("pads", SmallVector<int64_t>(2 * spatial, 0));
  size_t n = spatial;
  if (w.kernel.size() != n || w.strides.size() != n || w.dilations.size() != n ||
      w.pads.size() != 2 * n || !inRange(w.kernel, 1) || !inRange(w.strides, 1) ||
      !inRange(w.dilations, 1) || !inRange(w.pads, 0) ||
      (!kernel.empty() && ArrayRef<int64_t>(w.kernel) != kernel)) {
    c.error(ErrorId::OnnxBadAttribute,
            "kernel_shape, strides, dilations or pads do not fit the input or are not positive");
    return std::nullopt;
  }
  std::string mode = c.choice("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  if (mode == "VALID") {
    w.pads.assign(2 * n, 0);
  } else if ((mode == "SAME_UPPER" || mode == "SAME_LOWER") && !transposed) {
    for (size_t i = 0; i < n; ++i) {
      if (!padSame(c, w, i, mode == "SAME_UPPER", padsFreely)) {
        return std::nullopt;
      }
    }
  }
  return c.failed() ? std::nullopt : std::optional(w);
}

/// As much as any size needs is added to both ends, and the part that this one needs is taken.
Value padFreely(NodeContext &c, const Windows &w, Value x, Value fill) {
  if (!x || w.freePads.empty()) {
    return x;
  }
  tn::Dims dims = tn::getDims(x.getType());
  SmallVector<int64_t> begins(dims.size(), 0), ends(dims.size(), 0);
  for (const Windows::FreePad &pad : w.freePads) {
    begins[pad.axis] = ends[pad.axis] = pad.most;
  }
  x = c.make<tn::PadOp>(x, fill, begins, ends, tn::PadMode::constant);
  for (const Windows::FreePad &pad : w.freePads) {
    AffineExpr start = subtractSizes(c.constantSize(pad.most), pad.begin);
    x = c.sliceAxis(x, pad.axis, start, addSizes(dims[pad.axis], pad.total));
  }
  return x;
}

} // namespace tenon::onnx
