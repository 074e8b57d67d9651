// Convolutions: plain, transposed, and the integer and quantized forms as convolutions of int32.
// Relies on Windows.h for the window attributes; data is NC... in ONNX.
#include "compiler/frontend/onnx/Windows.h"
#include "compiler/frontend/onnx/ops/FusedActivation.h"
#include "compiler/frontend/onnx/ops/Quantizing.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The weight's spatial shape; none (after an error) if it does not fit the data.
std::optional<SmallVector<int64_t>> kernelShape(NodeContext &c, unsigned weight) {
  RankedTensorType type = c.type(weight);
  if (type.getRank() != c.rank(0) || type.getRank() < 3) {
    c.error(ErrorId::OnnxBadNode,
            "data and weight do not have the same number of dimensions, three or more");
    return std::nullopt;
  }
  if (!type.hasStaticShape()) {
    c.gap("the shape of its weight is not constant", "make the weight a constant");
    return std::nullopt;
  }
  return SmallVector<int64_t>(type.getShape().drop_front(2));
}

std::optional<int64_t> groupCount(NodeContext &c, int64_t channels) {
  int64_t groups = c.integer("group", 1);
  if (groups < 1 || channels % groups != 0) {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'group' does not divide the weight's channels");
    return std::nullopt;
  }
  return groups;
}

Value emitConv(NodeContext &c, Value x, Value weight, Value bias, unsigned weightInput) {
  std::optional<SmallVector<int64_t>> kernel = kernelShape(c, weightInput);
  std::optional<Windows> w =
      kernel ? readWindows(c, *kernel, /*transposed=*/false, /*padsFreely=*/true) : std::nullopt;
  std::optional<int64_t> groups =
      w ? groupCount(c, c.type(weightInput).getDimSize(0)) : std::nullopt;
  if (!groups) {
    return Value();
  }
  x = padFreely(c, *w, x, Value());
  return c.make<tn::ConvOp>(x, weight, bias, w->strides, w->pads, w->dilations, *groups, false);
}

void conv(NodeContext &c) { c.setOutput(0, emitConv(c, c.value(0), c.value(1), c.value(2), 1)); }

/// A convolution, what input 3 adds to it, and an activation.
void fusedConv(NodeContext &c) {
  std::optional<double> parameters[2];
  if (const Attribute *given = c.attribute("activation_params", AttributeType::Floats)) {
    for (size_t i = 0; i < std::min<size_t>(2, given->floats.size()); ++i) {
      parameters[i] = given->floats[i];
    }
  }
  Value y = emitConv(c, c.value(0), c.value(1), c.value(2), 1);
  y = c.has(3) ? c.add(y, c.value(3)) : y;
  c.setOutput(0, activated(c, y, parameters[0], parameters[1]));
}

/// An integer input minus its zero point, as int32; a per-channel zero point lies along `axis`.
Value centered(NodeContext &c, unsigned input, unsigned zeroPoint, int64_t axis) {
  Type wide = c.builder().getI32Type();
  Value x = c.cast(c.value(input), wide);
  if (!c.has(zeroPoint)) {
    return x;
  }
  Value zero = c.cast(c.value(zeroPoint), wide);
  return c.sub(x, c.rank(zeroPoint) == 1 ? c.alongAxis(zero, axis, c.rank(input)) : zero);
}

void convInteger(NodeContext &c) {
  checkQuantization(c, {{0, -1, 2}, {1, -1, 3}});
  c.setOutput(0, emitConv(c, centered(c, 0, 2, 1), centered(c, 1, 3, 0), Value(), 1));
}

void qlinearConv(NodeContext &c) {
  checkQuantization(c, {{0, 1, 2}, {3, 4, 5}, {-1, 6, 7}});
  Type real = c.builder().getF32Type();
  Value sum = emitConv(c, centered(c, 0, 2, 1), centered(c, 3, 5, 0), c.value(8), 3);
  Value scale = c.value(4);
  if (scale && c.rank(4) == 1) {
    scale = c.alongAxis(scale, 1, c.rank(0));
  }
  Value y = c.mul(c.cast(sum, real), c.mul(c.value(1), scale));
  c.setOutput(
      0, c.makeTyped<tn::QuantizeOp>(y ? Type(tn::withElement(y.getType(), c.element(7))) : Type(),
                                     y, c.value(6), c.value(7), int64_t{0}));
}

/// Padding from output_shape or auto_pad, which say the result's size.
bool resolveTransposedPads(NodeContext &c, Windows &w, SmallVectorImpl<int64_t> &outputPadding) {
  std::string mode = c.text("auto_pad", "NOTSET");
  SmallVector<int64_t> shape = c.integerList("output_shape");
  bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (shape.empty() && !same) {
    return true;
  }
  size_t n = w.kernel.size();
  tn::Dims dims = c.dims(0);
  for (size_t i = 0; i < n; ++i) {
    std::optional<int64_t> in = tn::constantDim(dims[2 + i]);
    if (!in) {
      c.gap("output_shape or auto_pad over a dimension that is not constant",
            "declare the dimension with --shape");
      return false;
    }
    int64_t out = shape.empty() ? *in * w.strides[i] : shape[shape.size() == n ? i : i + 2];
    int64_t total =
        w.strides[i] * (*in - 1) + outputPadding[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 - out;
    // A result that is longer than the windows reach is padded at its end.
    outputPadding[i] += std::max<int64_t>(0, -total);
    total = std::max<int64_t>(0, total);
    w.pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads[n + i] = total - w.pads[i];
  }
  return true;
}

void convTranspose(NodeContext &c) {
  std::optional<SmallVector<int64_t>> kernel = kernelShape(c, 1);
  std::optional<Windows> w = kernel ? readWindows(c, *kernel, /*transposed=*/true) : std::nullopt;
  std::optional<int64_t> groups = w ? groupCount(c, c.type(1).getDimSize(0)) : std::nullopt;
  if (!groups) {
    return;
  }
  size_t n = w->kernel.size();
  SmallVector<int64_t> outputPadding = c.integerList("output_padding", SmallVector<int64_t>(n, 0));
  SmallVector<int64_t> shape = c.integerList("output_shape");
  bool sound =
      outputPadding.size() == n && (shape.empty() || shape.size() == n || shape.size() == n + 2);
  for (size_t i = 0; sound && i < n; ++i) {
    sound = outputPadding[i] >= 0 && outputPadding[i] < std::max(w->strides[i], w->dilations[i]);
  }
  if (!sound) {
    return c.error(ErrorId::OnnxBadAttribute,
                   "output_padding or output_shape does not fit the input");
  }
  if (!resolveTransposedPads(c, *w, outputPadding)) {
    return;
  }
  c.setOutput(0, c.make<tn::ConvTransposeOp>(c.value(0), c.value(1), c.value(2), w->strides,
                                             w->pads, w->dilations, outputPadding, *groups));
}

constexpr Attributes kConv = {{"auto_pad", kString},   {"dilations", kInts}, {"group", kInt},
                              {"kernel_shape", kInts}, {"pads", kInts},      {"strides", kInts}};
constexpr Attributes kFusedConv = {{"activation", kString}, {"activation_params", kFloats},
                                   {"auto_pad", kString},   {"dilations", kInts},
                                   {"group", kInt},         {"kernel_shape", kInts},
                                   {"pads", kInts},         {"strides", kInts}};
constexpr Attributes kConvTranspose = {
    {"auto_pad", kString},     {"dilations", kInts},    {"group", kInt}, {"kernel_shape", kInts},
    {"output_padding", kInts}, {"output_shape", kInts}, {"pads", kInts}, {"strides", kInts}};

constexpr OpRow kConvolutionOpRows[] = {
    {"Conv", 1, 2, 3, 1, conv, kConv},
    {"ConvInteger", 10, 2, 4, 1, convInteger, kConv},
    {"ConvTranspose", 1, 2, 3, 1, convTranspose, kConvTranspose},
    {"FusedConv", 1, 2, 4, 1, fusedConv, kFusedConv, kMicrosoft},
    {"QLinearConv", 10, 8, 9, 1, qlinearConv, kConv},
};

} // namespace

ArrayRef<OpRow> convolutionRows() { return kConvolutionOpRows; }

} // namespace tenon::onnx
