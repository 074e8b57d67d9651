// Shape rules of products: matmul, convolution, transposed convolution, attention.
// Relies on channel counts and kernel sizes being constants, which it checks.
#include "compiler/graph/NarrowIntegers.h"
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

/// What sums of products of these elements are; null after an error. Those of ui8 by i8, as
/// quantized numbers are, are i32.
static Type sumElement(infer::Location location, Value data, Value weight) {
  Type element = elementOf(data), other = elementOf(weight);
  if (element.isUnsignedInteger(8) && other.isInteger(8) && !other.isUnsignedInteger()) {
    return IntegerType::get(element.getContext(), 32);
  }
  return succeeded(checkSameElement(location, data, weight)) ? element : Type();
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                         Types &types) {
  Dims a = dimsOf(adaptor.getA());
  Dims b = dimsOf(adaptor.getB());
  if (a.size() < 2 || b.size() < 2) {
    return emitOptionalError(location, "a matmul needs operands of rank 2 or more, not ", text(a),
                             " and ", text(b));
  }
  if (adaptor.getTransposeA()) {
    std::swap(a[a.size() - 1], a[a.size() - 2]);
  }
  if (adaptor.getTransposeB()) {
    std::swap(b[b.size() - 1], b[b.size() - 2]);
  }
  Type element = sumElement(location, adaptor.getA(), adaptor.getB());
  if (!element || failed(checkSameDim(location, a.back(), b[b.size() - 2],
                                      "the dims that a matmul sums over"))) {
    return failure();
  }
  FailureOr<Dims> dims = broadcast(location, ArrayRef(a).drop_back(2), ArrayRef(b).drop_back(2));
  if (failed(dims)) {
    return failure();
  }
  dims->push_back(a[a.size() - 2]);
  dims->push_back(b.back());
  return append(location, *dims, element, types);
}

namespace {

/// What convolution and its transposed form check alike.
struct Convolution {
  Dims x;       // N, C, spatial...
  Type element; ///< of the sums
  SmallVector<int64_t> weight;
  SmallVector<Window> windows;
};

/// A bias has the result's element type.
LogicalResult checkBias(infer::Location location, Type element, Value bias, int64_t channels) {
  if (!bias) {
    return success();
  }
  if (elementOf(bias) != element) {
    return emitOptionalError(location, "a bias of element type ", elementOf(bias),
                             " does not fit a result of ", element);
  }
  return checkDims(location, bias, getAffineConstantExpr(channels, element.getContext()), "bias");
}

FailureOr<Convolution> checkConvolution(infer::Location location, Value x, Value weight,
                                        bool channelsLast, ArrayRef<int64_t> strides,
                                        ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  Convolution result;
  result.x = dimsOf(x);
  size_t rank = result.x.size();
  if (rank < 3 || rank > 5 || rankOf(weight) != int64_t(rank)) {
    return emitOptionalError(location,
                             "a convolution takes 1 to 3 spatial dims and a weight of "
                             "the data's rank, not data ",
                             text(result.x), " and weight ", text(dimsOf(weight)));
  }
  if (channelsLast) {
    std::rotate(result.x.begin() + 1, result.x.end() - 1, result.x.end());
  }
  for (AffineExpr dim : dimsOf(weight)) {
    std::optional<int64_t> size = constantDim(dim);
    if (!size || *size > kLargestExtent) {
      return emitOptionalError(location, "the weight of a convolution has a dim of size ",
                               text(dim), ", which is not a usable constant");
    }
    result.weight.push_back(*size);
  }
  FailureOr<SmallVector<Window>> windows = makeWindows(
      location, rank - 2, ArrayRef(result.weight).drop_front(2), strides, pads, dilations);
  result.element = sumElement(location, x, weight);
  if (failed(windows) || !result.element) {
    return failure();
  }
  result.windows = std::move(*windows);
  return result;
}

} // namespace

LogicalResult ConvOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                       Adaptor adaptor, Types &types) {
  FailureOr<Convolution> conv =
      checkConvolution(location, adaptor.getX(), adaptor.getWeight(), adaptor.getChannelsLast(),
                       adaptor.getStrides(), adaptor.getPads(), adaptor.getDilations());
  if (failed(conv)) {
    return failure();
  }
  // Signed numbers are those whose zero point the padding is.
  if (isSignedByte(conv->element)) {
    conv->element = IntegerType::get(context, 32);
  }
  int64_t groups = adaptor.getGroups();
  int64_t out = conv->weight[0];
  if (groups < 1 || groups > kLargestExtent / std::max<int64_t>(conv->weight[1], 1) ||
      out % groups != 0) {
    return emitOptionalError(location, groups, " groups do not divide ", out, " output channels");
  }
  AffineExpr in = getAffineConstantExpr(conv->weight[1] * groups, context);
  if (failed(checkSameDim(location, conv->x[1], in,
                          "channels of the data and of the weight (times groups)")) ||
      failed(checkBias(location, conv->element, adaptor.getBias(), out))) {
    return failure();
  }
  Dims dims = {conv->x[0], getAffineConstantExpr(out, context)};
  for (auto [index, window] : llvm::enumerate(conv->windows)) {
    FailureOr<AffineExpr> size = windowCount(location, conv->x[index + 2], window, false);
    if (failed(size)) {
      return failure();
    }
    dims.push_back(*size);
  }
  if (adaptor.getChannelsLast()) {
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  }
  return append(location, dims, conv->element, types);
}

LogicalResult ConvTransposeOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                                Adaptor adaptor, Types &types) {
  FailureOr<Convolution> conv =
      checkConvolution(location, adaptor.getX(), adaptor.getWeight(), false, adaptor.getStrides(),
                       adaptor.getPads(), adaptor.getDilations());
  if (failed(conv) || failed(checkSameElement(location, adaptor.getX(), adaptor.getWeight())) ||
      failed(checkExtents(location, adaptor.getOutputPadding(), conv->windows.size(), 0,
                          "output padding"))) {
    return failure();
  }
  int64_t groups = adaptor.getGroups();
  int64_t in = conv->weight[0];
  if (groups < 1 || groups > kLargestExtent / std::max<int64_t>(conv->weight[1], 1) ||
      in % groups != 0) {
    return emitOptionalError(location, groups, " groups do not divide ", in, " input channels");
  }
  int64_t out = conv->weight[1] * groups;
  if (failed(checkSameDim(location, conv->x[1], getAffineConstantExpr(in, context),
                          "channels of the data and of the weight")) ||
      failed(checkBias(location, conv->element, adaptor.getBias(), out))) {
    return failure();
  }
  Dims dims = {conv->x[0], getAffineConstantExpr(out, context)};
  for (auto [index, window] : llvm::enumerate(conv->windows)) {
    int64_t rest = adaptor.getOutputPadding()[index] + window.extent() - window.stride -
                   window.padBegin - window.padEnd;
    AffineExpr size =
        addDims(multiplyDims(conv->x[index + 2], getAffineConstantExpr(window.stride, context)),
                getAffineConstantExpr(rest, context));
    if (conv->x[index + 2] && (!size || constantDim(size).value_or(1) < 1)) {
      return emitOptionalError(location, "spatial dim ", index,
                               " of the result is empty: the pads remove more than there is");
    }
    dims.push_back(size);
  }
  return append(location, dims, conv->element, types);
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                            Adaptor adaptor, Types &types) {
  ArrayRef<bool> inner = adaptor.getHeadsInner();
  if (inner.size() != 4) {
    return emitOptionalError(location, "headsInner has ", inner.size(),
                             " entries where 4 are "
                             "needed");
  }
  Dims shapes[3] = {dimsOf(adaptor.getQ()), dimsOf(adaptor.getK()), dimsOf(adaptor.getV())};
  for (auto [index, dims] : llvm::enumerate(shapes)) {
    if (dims.size() != 4) {
      return emitOptionalError(location, "attention takes tensors of rank 4, not ", text(dims));
    }
    if (inner[index]) {
      std::swap(dims[1], dims[2]);
    }
  }
  auto &[q, k, v] = shapes;
  if (failed(checkSameElement(location, adaptor.getQ(), adaptor.getK())) ||
      failed(checkSameElement(location, adaptor.getQ(), adaptor.getV())) ||
      failed(checkSameDim(location, q[0], k[0], "batch of q and k")) ||
      failed(checkSameDim(location, q[0], v[0], "batch of q and v")) ||
      failed(checkSameDim(location, k[1], v[1], "heads of k and v")) ||
      failed(checkSameDim(location, k[2], v[2], "positions of k and v")) ||
      failed(checkSameDim(location, q[3], k[3], "head size of q and k"))) {
    return failure();
  }
  std::optional<int64_t> heads = constantDim(q[1]);
  std::optional<int64_t> sharedHeads = constantDim(k[1]);
  bool divides = heads && sharedHeads && *sharedHeads > 0 && *heads % *sharedHeads == 0;
  if (!divides && !sameDim(q[1], k[1])) {
    return emitOptionalError(location, text(k[1]), " heads of k do not divide ", text(q[1]),
                             " heads of q");
  }
  if (Value mask = adaptor.getMask()) {
    // What is added to scores may have the f32 in which those of narrower operands are.
    bool isWide = elementOf(mask).isF32() && !elementOf(adaptor.getQ()).isF64();
    if ((!isWide && failed(checkSameElement(location, adaptor.getQ(), mask))) ||
        failed(checkBroadcastsTo(location, dimsOf(mask), {q[0], q[1], q[2], k[2]}, "mask"))) {
      return failure();
    }
  }
  Value start = adaptor.getStart();
  if (start && !sameDims(dimsOf(start), {getAffineConstantExpr(1, q[0].getContext())})) {
    return emitOptionalError(location, "attention starts at one position, not at ",
                             text(dimsOf(start)));
  }
  int64_t window = adaptor.getWindow();
  if (window < 0 || ((start || window > 0) && !adaptor.getCausal())) {
    return emitOptionalError(location, "only causal attention has a start or a window, and that "
                                       "is not negative");
  }
  Dims result = {q[0], q[1], q[2], v[3]};
  if (inner[3]) {
    std::swap(result[1], result[2]);
  }
  return append(location, result, elementOf(adaptor.getQ()), types);
}
