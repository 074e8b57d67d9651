// A channels-last convolution over two spatial dims as a call of cuDNN. Relies on the weight lying
// as [K, R, S, C / groups] once it is laid out, or since a transpose in the region says so.
#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The input that holds the weight in the library's order.
std::optional<uint32_t> weightInput(Match &match, tn::ConvOp conv) {
  Value weight = conv.getWeight();
  if (tn::TransposeOp transpose = weight.getDefiningOp<tn::TransposeOp>()) {
    match.cover(transpose);
    bool isOrdered = transpose.getPermutation() == ArrayRef<int64_t>{0, 3, 1, 2};
    return isOrdered ? match.inputOf(transpose.getX()) : std::nullopt;
  }
  tn::UnpackOp unpack = weight.getDefiningOp<tn::UnpackOp>();
  if (!unpack) {
    return packableInput(weight);
  }
  match.cover(unpack);
  return isChannelsLast(unpack) ? match.inputOf(unpack.getPacked()) : std::nullopt;
}

bool copyPositive(ArrayRef<int64_t> from, int32_t least, int32_t *to) {
  for (int64_t value : from) {
    if (value < least || value > std::numeric_limits<int32_t>::max()) {
      return false;
    }
    *to++ = static_cast<int32_t>(value);
  }
  return true;
}

bool copyWindow(tn::ConvOp conv, engine::ConvCall &call) {
  ArrayRef<int64_t> pads = conv.getPads();
  // Few engines of cuDNN take paddings that differ from end to end.
  bool isEven = pads.take_front(2) == pads.take_back(2);
  return isEven && copyPositive(conv.getStrides(), 1, call.strides) &&
         copyPositive(conv.getDilations(), 1, call.dilations) &&
         copyPositive(pads.take_front(2), 0, call.padBefore) &&
         copyPositive(pads.take_back(2), 0, call.padAfter) &&
         copyPositive({static_cast<int64_t>(conv.getGroups())}, 1, &call.groups);
}

/// The bias that is an operand of the convolution itself.
bool readOwnBias(Match &match, tn::ConvOp conv) {
  if (!conv.getBias()) {
    return true;
  }
  match.bias = match.inputOf(conv.getBias());
  return match.bias.has_value();
}

/// [O, taps..., C / groups]
tn::Packing channelsLast(RankedTensorType weight) {
  tn::Packing packing{.outerDimsPerm = {0}, .innerDimsPos = {}, .innerTiles = {}};
  llvm::append_range(packing.outerDimsPerm, llvm::seq<int64_t>(2, weight.getRank()));
  packing.outerDimsPerm.push_back(1);
  return packing;
}

int64_t filterElements(RankedTensorType weight) {
  return ShapedType::getNumElements(weight.getShape().drop_front());
}

} // namespace

std::optional<dispatch::WeightLayout> channelsLastWeight(func::FuncOp kernel) {
  auto convs = kernel.getOps<tn::ConvOp>();
  if (convs.empty()) {
    return std::nullopt;
  }
  Value operand = (*convs.begin()).getWeight();
  std::optional<unsigned> input = packableInput(operand);
  RankedTensorType weight = cast<RankedTensorType>(operand.getType());
  if (!input || filterElements(weight) == 0) {
    return std::nullopt;
  }
  return dispatch::WeightLayout{.input = *input, .packing = channelsLast(weight)};
}

bool isChannelsLast(tn::UnpackOp unpack) {
  return unpack.packing() == channelsLast(cast<RankedTensorType>(unpack.getType()));
}

std::optional<RegionStep> convStep(func::FuncOp kernel, Operation *root, bool allowTf32) {
  tn::ConvOp conv = cast<tn::ConvOp>(root);
  Match match(kernel);
  std::optional<DType> type = libraryType(conv.getType());
  tn::Dims x = tn::getDims(conv.getX().getType());
  std::optional<uint32_t> input = match.inputOf(conv.getX());
  if (!type || *type == DType::F64 || !conv.getChannelsLast() || x.size() != 4 || !input) {
    return std::nullopt;
  }
  engine::ConvCall call;
  std::optional<uint32_t> weight = weightInput(match, conv);
  if (!weight || !copyWindow(conv, call) || !readOwnBias(match, conv) ||
      !match.readEpilogue(root) || !match.isWhole()) {
    return std::nullopt;
  }
  tn::Dims w = tn::getDims(conv.getWeight().getType());
  tn::Dims y = tn::getDims(conv.getType());
  call.type = *type;
  call.hasBias = match.bias.has_value();
  call.hasResidual = match.residual.has_value();
  call.activation = match.activation;
  call.allowTf32 = allowTf32;
  RegionStep step;
  step.buffers = {*input, *weight};
  for (AffineExpr size : {x[0], x[1], x[2], x[3], w[0], w[2], w[3], y[1], y[2]}) {
    if (!size || tn::constantDim(size) == 0) {
      return std::nullopt;
    }
    step.sizes.push_back(programOf(size));
  }
  match.complete(step, call);
  return step;
}

} // namespace tenon::codegen::cuda
