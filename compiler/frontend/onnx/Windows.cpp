// Checks window attributes and resolves auto_pad to explicit padding.
// Relies on "SAME" padding of a symbolic dim being constant only for stride 1.
#include "compiler/frontend/onnx/Windows.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 31;

bool inRange(ArrayRef<int64_t> values, int64_t least) {
  return llvm::all_of(values, [&](int64_t value) { return value >= least && value < kMaxWindow; });
}

/// Padding that makes the result ceil(in / stride) long; negative if the dim's size is not known.
int64_t samePadding(AffineExpr dim, int64_t window, int64_t stride) {
  std::optional<int64_t> size = tn::constantDim(dim);
  if (!size) {
    return stride == 1 ? window - 1 : -1;
  }
  int64_t out = (*size + stride - 1) / stride;
  return std::max<int64_t>(0, (out - 1) * stride + window - *size);
}

} // namespace

std::optional<Windows> readWindows(NodeContext &c, ArrayRef<int64_t> kernel, bool transposed) {
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
    tn::Dims dims = c.dims(0);
    for (size_t i = 0; i < n; ++i) {
      int64_t total =
          samePadding(dims[2 + i], (w.kernel[i] - 1) * w.dilations[i] + 1, w.strides[i]);
      if (total < 0) {
        c.gap("auto_pad of a strided window over a dimension that is not constant",
              "declare the dimension with --shape");
        return std::nullopt;
      }
      int64_t less = total / 2;
      w.pads[i] = mode == "SAME_UPPER" ? less : total - less;
      w.pads[n + i] = total - w.pads[i];
    }
  }
  return c.failed() ? std::nullopt : std::optional(w);
}

} // namespace tenon::onnx
