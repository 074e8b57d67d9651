// Pooling, and how windows lie.
#include "compiler/frontend/tflite/ops/Windows.h"

using namespace mlir;

namespace tenon::tflite {

std::optional<Window> windowOf(Node &c, ArrayRef<int64_t> dims, ArrayRef<int64_t> kernel,
                               ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations,
                               fb::Padding padding) {
  Window window{SmallVector<int64_t>(kernel), SmallVector<int64_t>(strides),
                SmallVector<int64_t>(4, 0), SmallVector<int64_t>(dilations)};
  for (size_t i = 0; i < 2; ++i) {
    if (kernel[i] < 1 || strides[i] < 1 || dilations[i] < 1 || dims[i + 1] < 1) {
      c.error(ErrorId::OnnxBadAttribute,
              "its windows, strides and dilations are not all 1 or more");
      return std::nullopt;
    }
    if (padding == fb::Padding::Same) {
      int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
      int64_t count = llvm::divideCeil(dims[i + 1], strides[i]);
      int64_t total = std::max<int64_t>(0, (count - 1) * strides[i] + reach - dims[i + 1]);
      window.pads[i] = total / 2;
      window.pads[i + 2] = total - total / 2;
    }
  }
  return window;
}

namespace {

template <bool isMaximum> void pool(Node &c) {
  const fb::Pool2DOptions *options = c.options(c.op.options_as_Pool2DOptions());
  mlir::Value x = c.value(0);
  if (!options || !x) {
    return;
  }
  if (c.rank(x) != 4) {
    return c.error(ErrorId::OnnxBadNode, "its operand does not have four dims");
  }
  std::optional<Window> window =
      windowOf(c, c.shape(x), {options->filter_h(), options->filter_w()},
               {options->stride_h(), options->stride_w()}, {1, 1}, options->padding());
  if (!window) {
    return;
  }
  mlir::Value y = isMaximum
                      ? c.make<tn::MaxPoolOp>(x, window->kernel, window->strides, window->pads,
                                              window->dilations, false, true)
                      : c.make<tn::AvgPoolOp>(x, window->kernel, window->strides, window->pads,
                                              window->dilations, false, false, true);
  c.setOutput(c.activated(y, options->activation()));
}

} // namespace

llvm::ArrayRef<OpRow> windowRows() {
  static constexpr OpRow kRows[] = {
      {"AVERAGE_POOL_2D", 1, pool<false>},
      {"MAX_POOL_2D", 1, pool<true>},
  };
  return kRows;
}

} // namespace tenon::tflite
