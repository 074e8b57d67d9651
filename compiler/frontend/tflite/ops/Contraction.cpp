// Convolutions and products of matrices. Weights of a convolution are [outputs, height, width,
// inputs] in the file and [outputs, inputs, height, width] in `tn`.
#include "compiler/frontend/tflite/ops/Windows.h"

using namespace mlir;

namespace tenon::tflite {
namespace {

void convolution(Node &c, ArrayRef<int64_t> permutation, bool isDepthwise,
                 ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations, fb::Padding padding,
                 fb::Activation activation) {
  mlir::Value x = c.value(0), weight = c.permutedWeight(1, permutation);
  if (!x || !weight) {
    return;
  }
  if (c.rank(x) != 4) {
    return c.error(ErrorId::OnnxBadNode, "its operand does not have four dims");
  }
  ArrayRef<int64_t> kernel = c.shape(weight);
  int64_t channels = c.shape(x)[3], inputs = isDepthwise ? 1 : kernel[1];
  bool isFit =
      inputs > 0 && channels > 0 && channels % inputs == 0 && (!isDepthwise || kernel[1] == 1);
  if (!isFit) {
    return c.error(ErrorId::OnnxBadNode, "its weights do not fit the channels of its operand");
  }
  std::optional<Window> window =
      windowOf(c, c.shape(x), kernel.drop_front(2), strides, dilations, padding);
  if (window) {
    mlir::Value y = c.make<tn::ConvOp>(x, weight, c.bias(2, 0, 1), window->strides, window->pads,
                                       window->dilations, channels / inputs, true);
    c.setOutput(c.activated(y, activation));
  }
}

void conv(Node &c) {
  if (const fb::Conv2DOptions *options = c.options(c.op.options_as_Conv2DOptions())) {
    convolution(c, {0, 3, 1, 2}, false, {options->stride_h(), options->stride_w()},
                {options->dilation_h(), options->dilation_w()}, options->padding(),
                options->activation());
  }
}

void depthwise(Node &c) {
  if (const fb::DepthwiseConv2DOptions *options =
          c.options(c.op.options_as_DepthwiseConv2DOptions())) {
    convolution(c, {3, 0, 1, 2}, true, {options->stride_h(), options->stride_w()},
                {options->dilation_h(), options->dilation_w()}, options->padding(),
                options->activation());
  }
}

/// Operands: the size of the result, weights, what is convolved, perhaps a bias.
void transposeConv(Node &c) {
  const fb::TransposeConvOptions *options = c.options(c.op.options_as_TransposeConvOptions());
  mlir::Value x = c.value(2), weight = c.permutedWeight(1, {3, 0, 1, 2});
  SmallVector<int64_t> stated = c.statedShape(0);
  if (!options || !x || !weight) {
    return;
  }
  if (c.rank(x) != 4 || stated.size() != 4) {
    return c.error(ErrorId::OnnxBadNode, "its operand or result does not have four dims");
  }
  SmallVector<int64_t> kernel(c.shape(weight).drop_front(2));
  SmallVector<int64_t> strides = {options->stride_h(), options->stride_w()};
  // Windows lie on the result as those of a convolution back to the operand.
  std::optional<Window> window = windowOf(c, stated, kernel, strides, {1, 1}, options->padding());
  if (!window) {
    return;
  }
  SmallVector<int64_t> pads(4, 0), longer(2, 0);
  for (size_t i = 0; i < 2; ++i) {
    int64_t whole = (c.shape(x)[i + 1] - 1) * strides[i] + kernel[i];
    pads[i] = window->pads[i];
    int64_t rest = whole - pads[i] - stated[i + 1];
    pads[i + 2] = std::max<int64_t>(0, rest);
    longer[i] = std::max<int64_t>(0, -rest);
  }
  mlir::Value y = c.make<tn::ConvTransposeOp>(c.transpose(x, {0, 3, 1, 2}), weight, c.bias(3, 2, 1),
                                              strides, pads, window->dilations, longer, int64_t{1});
  c.setOutput(c.activated(c.transpose(y, {0, 2, 3, 1}), options->activation()));
}

void fullyConnected(Node &c) {
  const fb::FullyConnectedOptions *options = c.options(c.op.options_as_FullyConnectedOptions());
  mlir::Value x = c.value(0), weight = c.value(1);
  if (!options || !x || !weight) {
    return;
  }
  if (options->weights_format() != 0) {
    return c.gap("its weights are shuffled", "convert the model without that");
  }
  if (c.rank(weight) != 2 || c.shape(weight)[1] < 1 || c.rank(x) < 1) {
    return c.error(ErrorId::OnnxBadNode, "its weights do not have two dims");
  }
  int64_t depth = c.shape(weight)[1], count = cast<RankedTensorType>(x.getType()).getNumElements();
  if (count % depth != 0) {
    return c.error(ErrorId::OnnxBadNode,
                   "its operand is not rows of as many elements as its weights");
  }
  mlir::Value y = c.make<tn::MatmulOp>(c.reshape(x, {count / depth, depth}), weight, false, true);
  mlir::Value bias = c.bias(2, 0, 1);
  y = c.activated(bias ? c.add(y, bias) : y, options->activation());
  c.setOutput(c.reshape(y, c.statedShape(0)));
}

void batchMatmul(Node &c) {
  const fb::BatchMatMulOptions *options = c.options(c.op.options_as_BatchMatMulOptions());
  mlir::Value a = c.value(0), b = c.value(1);
  if (options && a && b) {
    c.setOutput(c.make<tn::MatmulOp>(a, b, options->adjoint_x(), options->adjoint_y()));
  }
}

} // namespace

llvm::ArrayRef<OpRow> contractionRows() {
  static constexpr OpRow kRows[] = {
      {"BATCH_MATMUL", 2, batchMatmul},     {"CONV_2D", 2, conv},
      {"DEPTHWISE_CONV_2D", 2, depthwise},  {"FULLY_CONNECTED", 2, fullyConnected},
      {"TRANSPOSE_CONV", 3, transposeConv},
  };
  return kRows;
}

} // namespace tenon::tflite
