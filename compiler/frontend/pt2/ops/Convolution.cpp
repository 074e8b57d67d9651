// Convolutions of all ranks, plain and transposed.
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// A list with an entry for each spatial dim; one entry stands for all.
SmallVector<int64_t> spatial(Call &c, StringRef name, size_t dims, int64_t otherwise) {
  SmallVector<int64_t> list = c.integers(name, SmallVector<int64_t>(dims, otherwise));
  if (list.size() == 1) {
    list.resize(dims, list[0]);
  }
  if (list.size() != dims) {
    c.error(ErrorId::Pt2BadGraph,
            "its argument '" + name + "' does not have an entry for each dim");
    list.assign(dims, otherwise);
  }
  return list;
}

/// Padding by word: "same" puts the odd one at the end.
SmallVector<int64_t> paddingByName(Call &c, ArrayRef<int64_t> kernel, ArrayRef<int64_t> dilations) {
  SmallVector<int64_t> begins, ends;
  bool isSame = c.text("padding", "valid") == "same";
  for (auto [size, dilation] : llvm::zip_equal(kernel, dilations)) {
    int64_t total = isSame ? dilation * (size - 1) : 0;
    begins.push_back(total / 2);
    ends.push_back(total - total / 2);
  }
  begins.append(ends);
  return begins;
}

void convolution(Call &c) {
  mlir::Value x = c.value("input"), weight = c.value("weight"), bias = c.value("bias");
  c.ignore({"benchmark", "deterministic", "cudnn_enabled", "allow_tf32"});
  if (!x || !weight) {
    return;
  }
  RankedTensorType kernelType = cast<RankedTensorType>(weight.getType());
  size_t dims = static_cast<size_t>(kernelType.getRank() - 2);
  if (!kernelType.hasStaticShape() || dims < 1 || dims > 3) {
    return c.gap("the shape of its weight is not constant, or has other than 1 to 3 spatial dims",
                 "make the weight a constant");
  }
  // Without a batch the data has a dim less.
  bool isSingle = cast<RankedTensorType>(x.getType()).getRank() == kernelType.getRank() - 1;
  if (isSingle) {
    tn::Dims batched = tn::getDims(x.getType());
    batched.insert(batched.begin(), c.constantSize(1));
    x = c.reshape(x, batched);
  }
  bool isTransposed = c.truth("transposed", c.target.name.contains("transpose"));
  SmallVector<int64_t> strides = spatial(c, "stride", dims, 1);
  SmallVector<int64_t> dilations = spatial(c, "dilation", dims, 1);
  const Argument *padding = c.argument("padding");
  SmallVector<int64_t> pads;
  if (padding && padding->kind == Argument::Kind::String) {
    pads = paddingByName(c, kernelType.getShape().drop_front(2), dilations);
  } else {
    pads = spatial(c, "padding", dims, 0);
    pads.append(SmallVector<int64_t>(pads));
  }
  SmallVector<int64_t> outputPadding = spatial(c, "output_padding", dims, 0);
  int64_t groups = c.integer("groups", 1);
  mlir::Value y =
      isTransposed ? c.make<tn::ConvTransposeOp>(x, weight, bias, strides, pads, dilations,
                                                 outputPadding, groups)
                   : c.make<tn::ConvOp>(x, weight, bias, strides, pads, dilations, groups, false);
  if (isSingle && y) {
    tn::Dims single = tn::getDims(y.getType());
    single.erase(single.begin());
    y = c.reshape(y, single);
  }
  c.setOutput(y);
}

constexpr OpRow kConvolutionOpRows[] = {
    {"aten.conv1d", convolution},           {"aten.conv2d", convolution},
    {"aten.conv3d", convolution},           {"aten.convolution", convolution},
    {"aten._convolution", convolution},     {"aten.conv_transpose1d", convolution},
    {"aten.conv_transpose2d", convolution}, {"aten.conv_transpose3d", convolution},
};

} // namespace

ArrayRef<OpRow> convolutionRows() { return kConvolutionOpRows; }

} // namespace tenon::pt2
