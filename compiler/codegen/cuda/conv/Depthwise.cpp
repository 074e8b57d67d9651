// The family of depthwise convolutions: which regions it takes, and the tile of a thread. Relies on
// tn.conv's verifier for ranks.
#include "compiler/codegen/cuda/conv/Depthwise.h"

#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/conv/Tuning.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"
#include "compiler/dispatch/OpKinds.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/NarrowIntegers.h"
#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {

int64_t DepthwiseProblem::taps() const {
  int64_t count = 1;
  for (const DepthwiseDim &dim : dims) {
    count *= dim.taps;
  }
  return count;
}

namespace {

/// Whether the filter was laid out as layoutOfDepthwise says.
bool isAsLaidOut(tn::UnpackOp unpack, const RankedTensorType &weight) {
  return unpack.packing() == panelsOfOutputs(weight, weight.getDimSize(0), /*groups=*/1);
}

bool findFilter(tn::ConvOp conv, DepthwiseProblem &problem) {
  Value weight = conv.getWeight();
  tn::UnpackOp unpack = weight.getDefiningOp<tn::UnpackOp>();
  problem.isLaidOut = unpack || packableInput(weight);
  BlockArgument argument = dyn_cast<BlockArgument>(unpack ? unpack.getPacked() : weight);
  if (!argument || (unpack && !isAsLaidOut(unpack, cast<RankedTensorType>(weight.getType())))) {
    return false;
  }
  problem.filter = argument.getArgNumber();
  return true;
}

SmallVector<DepthwiseDim, 3> depthwiseDims(tn::ConvOp conv) {
  tn::Dims in = tn::getDims(conv.getX().getType()), out = tn::getDims(conv.getType());
  ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  size_t spatial = in.size() - 2;
  SmallVector<DepthwiseDim, 3> dims;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t begin = conv.getPads()[i], end = conv.getPads()[spatial + i];
    dims.push_back({in[1 + i], out[1 + i], weight[2 + i], conv.getStrides()[i],
                    conv.getDilations()[i], begin, begin > 0 || end > 0});
  }
  return dims;
}

} // namespace

MatchResult<DepthwiseProblem> matchDepthwise(RegionBuilder &region) {
  auto convs = region.source.getOps<tn::ConvOp>();
  if (!llvm::hasSingleElement(convs) || region.source.getNumResults() != 1) {
    return MatchFailure{"it is not one convolution with one result"};
  }
  tn::ConvOp conv = *convs.begin();
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  if (!dispatch::isDepthwise(conv) || !conv.getChannelsLast() || !weight.hasStaticShape() ||
      weight.getNumElements() == 0) {
    return MatchFailure{
        "it is not depthwise with channels last, or its filter's size is not known"};
  }
  Type element = weight.getElementType();
  bool areBytes = tn::isByteProduct(conv);
  bool isFloat = element.isF32() || element.isF16() || element.isBF16();
  BlockArgument x = dyn_cast<BlockArgument>(conv.getX());
  bool isOneType = isFloat && conv.getType().getElementType() == element && x &&
                   getElementTypeOrSelf(x) == element;
  if (!x || !(areBytes || isOneType)) {
    return MatchFailure{"the operands are no inputs of one type, f32, f16 or bf16, nor bytes"};
  }
  if (!isElementwiseBehind(conv) || !productTensors(region)) {
    return MatchFailure{"what follows is not elementwise on the whole convolution"};
  }
  DepthwiseProblem problem;
  problem.input = x.getArgNumber();
  if (!findFilter(conv, problem)) {
    return MatchFailure{"the filter lies in another layout"};
  }
  problem.dims = depthwiseDims(conv);
  problem.images = tn::getDims(conv.getType()).front();
  problem.channels = weight.getDimSize(0);
  problem.multiplier = problem.channels / static_cast<int64_t>(conv.getGroups());
  problem.element = element;
  problem.areBytes = areBytes;
  problem.isSigned = areBytes && tn::isSignedByte(getElementTypeOrSelf(x));
  if (areBytes && problem.taps() > kMaxByteTaps) {
    return MatchFailure{"f32 does not hold all sums of so many bytes"};
  }
  return problem;
}

namespace {

int64_t threadsOf(RegionBuilder &region, const DepthwiseProblem &problem,
                  const DepthwiseTile &tile) {
  int64_t threads = region.estimate(problem.images) * (problem.channels / tile.lanes);
  for (const DepthwiseDim &dim : ArrayRef(problem.dims).drop_back()) {
    threads *= region.estimate(dim.out);
  }
  int64_t outputs = region.estimate(problem.dims.back().out);
  return threads * ((outputs + tile.width - 1) / tile.width);
}

/// Outputs side by side share what their windows have in common; not so many that threads are few
/// or most of the last tile of a line is empty.
DepthwiseTile tileOf(RegionBuilder &region, const DepthwiseProblem &problem) {
  DepthwiseTile tile;
  // Bytes take registers of f32 each: more outputs beside each other use them more often.
  int64_t most = problem.areBytes ? tuning::kDepthwiseByteLanes : 16 / byteSize(problem.element);
  tile.lanes = std::gcd(problem.channels, most);
  tile.width = tuning::kDepthwiseSums / tile.lanes;
  tile.width = std::min(tile.width, tuning::kDepthwiseWidth);
  int64_t outputs = std::max<int64_t>(region.estimate(problem.dims.back().out), 1);
  auto isWasteful = [&] {
    int64_t padded = (outputs + tile.width - 1) / tile.width * tile.width;
    return padded * 3 > outputs * 4;
  };
  while (tile.width > 1 && (isWasteful() || threadsOf(region, problem, tile) <
                                                region.gpu.cores * tuning::kDepthwiseThreads)) {
    tile.width /= 2;
  }
  return tile;
}

FamilyMatch matchFamily(RegionBuilder &region) {
  MatchResult<DepthwiseProblem> problem = matchDepthwise(region);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  return FamilyMatch::take(
      *problem, dispatch::choiceOf(kConvDepthwise.name, tileOf(region, *problem)),
      "a window's lines are read once for the outputs that a thread has beside each other");
}

std::vector<dispatch::KernelChoice> depthwiseConfigs(RegionBuilder &region,
                                                     const DepthwiseProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  DepthwiseTile tile = tileOf(region, problem);
  int64_t widest = std::min(tuning::kDepthwiseSums / tile.lanes, tuning::kDepthwiseWidth);
  for (tile.width = 1; tile.width <= widest; tile.width *= 2) {
    choices.push_back(dispatch::choiceOf(kConvDepthwise.name, tile));
  }
  return choices;
}

std::optional<dispatch::WeightLayout> depthwiseWeights(RegionBuilder &region,
                                                       const DepthwiseProblem &) {
  return layoutOfDepthwise(*region.source.getOps<tn::ConvOp>().begin());
}

LogicalResult emitDepthwiseChoice(RegionBuilder &region, const DepthwiseProblem &problem,
                                  const dispatch::KernelChoice &choice) {
  return success(emitDepthwise(region, problem, configOf<DepthwiseTile>(choice)));
}

} // namespace

constexpr KernelFamily kConvDepthwise = {
    .name = "conv_depthwise",
    .what = "depthwise convolution: a thread has a few outputs beside each other, of channels that "
            "fill an access",
    .strategies = {dispatch::kDepthwise, dispatch::kSingle},
    .needs = {"conv"},
    .match = matchFamily,
    .configs = on<depthwiseConfigs>,
    .weights = on<depthwiseWeights>,
    .emit = on<emitDepthwiseChoice>};

} // namespace tenon::codegen::cuda
