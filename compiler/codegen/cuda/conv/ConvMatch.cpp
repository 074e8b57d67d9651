// Reads a channels-last convolution over one to three spatial dims as a product. Relies on
// tn.conv's verifier for ranks.
#include "compiler/codegen/cuda/conv/ConvMatch.h"

#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cuda/conv/Tuning.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/dispatch/FormRegions.h"
#include "compiler/graph/NarrowIntegers.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The shortest asynchronous copy.
constexpr int64_t kBytesOfCopy = 4;

/// Where the filter lies once it is laid out for this family, or as it is.
std::optional<StridedTensor> filterOf(tn::ConvOp conv) {
  Value weight = tn::narrowOperand(conv, conv.getWeight());
  tn::UnpackOp unpack = weight.getDefiningOp<tn::UnpackOp>();
  std::optional<unsigned> laidOut = packableInput(weight);
  if (!unpack && !laidOut) {
    return stridedInput(weight);
  }
  BlockArgument packed = dyn_cast<BlockArgument>(unpack ? unpack.getPacked() : weight);
  if (!packed || (unpack && !isChannelsLast(unpack))) {
    return std::nullopt;
  }
  MLIRContext *context = conv.getContext();
  tn::Dims shape = tn::getDims(weight.getType());
  // [O, taps..., C / groups]
  tn::Dims stored(shape);
  std::rotate(stored.begin() + 1, stored.begin() + 2, stored.end());
  tn::Dims strides = rowMajor(stored, context);
  std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return StridedTensor{packed.getArgNumber(),
                       cast<RankedTensorType>(weight.getType()).getElementType(),
                       getAffineConstantExpr(0, context), strides};
}

/// The most elements, a power of two up to 16 bytes, on whose borders all places lie that differ by
/// steps of these strides and of `run` along the dim that is contiguous.
int64_t widthOf(const StridedTensor &tensor, size_t contiguous, int64_t run) {
  if (tn::constantDim(tensor.strides[contiguous]) != 1) {
    return 1;
  }
  int64_t width = std::gcd<int64_t>(run, 16 / byteSize(tensor.element));
  auto fits = [&](size_t dim) {
    return dim == contiguous || tensor.strides[dim].isMultipleOf(width);
  };
  while (!tensor.offset.isMultipleOf(width) ||
         !llvm::all_of(llvm::seq<size_t>(0, tensor.strides.size()), fits)) {
    width /= 2;
  }
  return width;
}

SmallVector<ConvDim, 3> dimsOf(tn::ConvOp conv) {
  tn::Dims in = tn::getDims(conv.getX().getType());
  ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  size_t spatial = in.size() - 2;
  SmallVector<ConvDim, 3> dims;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t begin = conv.getPads()[i], end = conv.getPads()[spatial + i];
    dims.push_back({in[1 + i], weight[2 + i], conv.getStrides()[i], conv.getDilations()[i], begin,
                    begin > 0 || end > 0});
  }
  return dims;
}

/// Has a computed filter laid out if its channels are copied in larger pieces then.
void layOutComputed(ConvProblem &problem, ArrayRef<int64_t> weight) {
  int64_t most = 16 / byteSize(problem.filter.element);
  int64_t count = 1;
  for (int64_t size : weight) {
    count *= size;
  }
  bool isSmall = count < std::numeric_limits<int32_t>::max();
  if (!isSmall || problem.filterWidth >= std::gcd(problem.groupChannels, most)) {
    return;
  }
  problem.filterSizes.assign(weight.begin(), weight.end());
  std::rotate(problem.filterSizes.begin() + 1, problem.filterSizes.begin() + 2,
              problem.filterSizes.end());
  problem.computed = problem.filter;
  tn::Dims &strides = problem.computed.strides;
  std::rotate(strides.begin() + 1, strides.begin() + 2, strides.end());
  MLIRContext *context = problem.filter.offset.getContext();
  tn::Dims stored;
  for (int64_t size : problem.filterSizes) {
    stored.push_back(getAffineConstantExpr(size, context));
  }
  problem.filter.offset = getAffineConstantExpr(0, context);
  problem.filter.strides = rowMajor(stored, context);
  std::rotate(problem.filter.strides.begin() + 1, problem.filter.strides.end() - 1,
              problem.filter.strides.end());
  problem.filterWidth = widthOf(problem.filter, 1, problem.groupChannels);
}

GemmProblem productOf(tn::ConvOp conv, const ConvProblem &problem) {
  MLIRContext *context = conv.getContext();
  auto constant = [&](int64_t value) { return getAffineConstantExpr(value, context); };
  tn::Dims y = tn::getDims(conv.getType());
  GemmProblem product;
  int64_t others = static_cast<int64_t>(conv.getGroups()) / problem.joined;
  if (others > 1) {
    product.batch = {constant(others)};
    product.isGrouped = true;
  }
  product.rowDims.assign(y.begin(), y.end() - 1);
  product.rows = tn::elementCount(context, product.rowDims);
  product.columns = constant(problem.joined * problem.groupColumns);
  int64_t taps = 1;
  for (const ConvDim &dim : problem.dims) {
    taps *= dim.taps;
  }
  product.depth = constant(taps * problem.channels());
  product.a.at = problem.x;
  product.b.at = problem.filter;
  return product;
}

} // namespace

int64_t joinedGroups(int64_t groups, int64_t channels, int64_t columns, int64_t most) {
  int64_t best = 1;
  for (int64_t joined = 2; joined <= groups; ++joined) {
    bool isLonger = std::gcd(joined * channels, most) > std::gcd(best * channels, most);
    if (groups % joined == 0 && joined * columns <= tuning::kJoinedColumns &&
        (best * columns < tuning::kConvWidths[0] || isLonger)) {
      best = joined;
    }
  }
  return best;
}

MatchResult<ConvProblem> matchConv(RegionBuilder &region, bool isHalf, JoinGroups join) {
  auto convs = region.source.getOps<tn::ConvOp>();
  if (!llvm::hasSingleElement(convs) || region.source.getNumResults() != 1) {
    return MatchFailure{"it is not one convolution with one result"};
  }
  tn::ConvOp conv = *convs.begin();
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  tn::Dims x = tn::getDims(conv.getX().getType()), y = tn::getDims(conv.getType());
  auto isKnown = [](AffineExpr dim) { return bool(dim); };
  if (!conv.getChannelsLast() || !weight.hasStaticShape() || weight.getNumElements() == 0 ||
      !tn::constantDim(x.back()) || !llvm::all_of(x, isKnown) || !llvm::all_of(y, isKnown)) {
    return MatchFailure{"channels are not last, or their number or the filter's size is not known"};
  }
  Value data = tn::narrowOperand(conv, conv.getX());
  Value taps = tn::narrowOperand(conv, conv.getWeight());
  Type element = getElementTypeOrSelf(data);
  bool areBytes = tn::isByteProduct(conv);
  bool fits = isHalf ? element.isF16() || element.isBF16() : element.isF32();
  bool isSummedAs = tn::isNarrowProduct(conv) || conv.getType().getElementType() == element;
  if (areBytes ? !isHalf : !fits || !isSummedAs || getElementTypeOrSelf(taps) != element) {
    return isHalf ? MatchFailure{"the operands are not f16, bf16 or bytes"}
                  : MatchFailure{"the operands are not f32"};
  }
  if (!isElementwiseBehind(conv)) {
    return MatchFailure{"what follows is not elementwise on the whole convolution"};
  }
  std::optional<StridedTensor> input = stridedInput(data), filter = filterOf(conv);
  if (!input || !filter || tn::constantDim(input->strides.back()) != 1) {
    return MatchFailure{"an operand is computed in the region, or its channels are not contiguous"};
  }
  if (!productTensors(region)) {
    return MatchFailure{"it has no form as loops"};
  }
  int64_t groups = static_cast<int64_t>(conv.getGroups());
  int64_t together = areBytes ? 2 : 1; // bytes that are one element of 16 bits
  if (areBytes) {
    input = pairedBytes(*input, x.size() - 1);
    filter = pairedBytes(*filter, 1);
    if (!input || !filter || weight.getDimSize(1) % kBytesOfCopy != 0) {
      return MatchFailure{
          "bytes do not lie side by side along the channels, four and more of them"};
    }
  }
  int64_t most = 16 / byteSize(input->element);
  ConvProblem problem;
  problem.x = *input;
  problem.filter = *filter;
  problem.dims = dimsOf(conv);
  problem.groupChannels = weight.getDimSize(1) / together;
  problem.groupColumns = weight.getDimSize(0) / groups;
  problem.joined = join(groups, problem.groupChannels, problem.groupColumns, most);
  if (problem.joined == 0) {
    return MatchFailure{"no number of groups has channels that fill 16 bytes"};
  }
  problem.patchWidth = widthOf(problem.x, x.size() - 1, problem.channels());
  problem.filterWidth = widthOf(problem.filter, 1, problem.groupChannels);
  if (!areBytes) {
    layOutComputed(problem, weight.getShape());
  }
  problem.product = productOf(conv, problem);
  problem.product.isSigned = areBytes && tn::isSignedByte(element);
  return problem;
}

} // namespace tenon::codegen::cuda
