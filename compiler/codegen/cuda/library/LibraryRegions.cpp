// Finds the root of a contraction and reads what stands around it. Relies on a region having one
// root; whatever the readers do not know word for word is left to generated code. One file: a
// call's match, its predicted time and its step read the same operands.
#include "compiler/codegen/cuda/library/LibraryRegions.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/OnePanel.h"
#include "compiler/codegen/cuda/base/StridedTensor.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/codegen/cuda/library/Tuning.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Float8.h"
#include "compiler/target/Float8.h"
#include "engine/LibraryAbi.h"

#include <cstddef>
#include <cstring>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// A vector over the last dim, with any number of leading dims of one.
bool isVectorOver(ArrayRef<AffineExpr> dims, AffineExpr last) {
  return !dims.empty() && tn::sameDim(dims.back(), last) &&
         llvm::all_of(dims.drop_back(), [](AffineExpr dim) { return tn::constantDim(dim) == 1; });
}

/// Whether a product, a convolution or attention may sum over nothing, which no library does.
bool maySumNothing(func::FuncOp kernel, Operation &op) {
  tn::Dims summed;
  if (tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(op)) {
    tn::Dims dims = tn::getDims(matmul.getA().getType());
    summed = {dims[dims.size() - (matmul.getTransposeA() ? 2 : 1)]};
  } else if (tn::ConvOp conv = dyn_cast<tn::ConvOp>(op)) {
    summed = tn::getDims(conv.getWeight().getType());
  } else if (tn::AttentionOp attention = dyn_cast<tn::AttentionOp>(op)) {
    summed = tn::getDims(attention.getK().getType());
  }
  tn::SymbolList declared(kernel->getParentOfType<ModuleOp>());
  return llvm::any_of(summed, [&](AffineExpr dim) { return declared.bounds(dim).min <= 0; });
}

} // namespace

std::optional<DType> libraryType(Type tensor) {
  Type element = cast<RankedTensorType>(tensor).getElementType();
  if (element.isF32()) {
    return DType::F32;
  }
  if (element.isF64()) {
    return DType::F64;
  }
  if (element.isF16()) {
    return DType::F16;
  }
  return element.isBF16() ? std::optional(DType::BF16) : std::nullopt;
}

std::optional<uint32_t> Match::inputOf(Value value) const {
  BlockArgument argument = dyn_cast<BlockArgument>(value);
  return argument ? std::optional(argument.getArgNumber()) : std::nullopt;
}

std::optional<View> Match::viewOf(Value value) {
  tn::UnpackOp unpack = value.getDefiningOp<tn::UnpackOp>();
  if (unpack && isOnePanel(unpack)) {
    return viewOfPanel(unpack);
  }
  tn::TransposeOp transpose = value.getDefiningOp<tn::TransposeOp>();
  std::optional<uint32_t> argument = inputOf(transpose ? transpose.getX() : value);
  if (!argument) {
    return std::nullopt;
  }
  tn::Dims dims = tn::getDims(kernel.getArgument(*argument).getType());
  tn::Dims strides(dims.size());
  AffineExpr stride = getAffineConstantExpr(1, kernel.getContext());
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride = tn::multiplyDims(stride, dims[i]);
  }
  if (!stride) {
    return std::nullopt;
  }
  View view{*argument, dims, strides};
  if (transpose) {
    cover(transpose);
    for (auto [to, from] : llvm::enumerate(transpose.getPermutation())) {
      view.dims[to] = dims[from];
      view.strides[to] = strides[from];
    }
  }
  return view;
}

std::optional<View> Match::viewOfPanel(tn::UnpackOp unpack) {
  std::optional<uint32_t> argument = inputOf(unpack.getPacked());
  if (!argument) {
    return std::nullopt;
  }
  cover(unpack);
  ArrayRef<int64_t> order = unpack.getOuterDimsPerm();
  View view{*argument, tn::getDims(unpack.getType()), tn::Dims(2)};
  view.strides[order[0]] = view.dims[order[1]];
  view.strides[order[1]] = getAffineConstantExpr(1, kernel.getContext());
  return view;
}

bool Match::readAdd(Value value, Operation *add) {
  Value other = add->getOperand(add->getOperand(0) == value ? 1 : 0);
  std::optional<uint32_t> input = inputOf(other);
  if (!input || add->getResult(0).getType() != value.getType()) {
    return false;
  }
  tn::Dims dims = tn::getDims(value.getType());
  tn::Dims otherDims = tn::getDims(other.getType());
  if (!bias && isVectorOver(otherDims, dims.back())) {
    bias = input;
    return true;
  }
  if (!residual && tn::sameDims(otherDims, dims)) {
    residual = input;
    return true;
  }
  return false;
}

bool Match::readEpilogue(Operation *root) {
  cover(root);
  result = root->getResult(0);
  while (result.hasOneUse()) {
    Operation *user = *result.getUsers().begin();
    if (isa<func::ReturnOp>(user)) {
      return true;
    }
    if (activation != engine::LibraryActivation::None) {
      return false;
    }
    tn::GeluOp gelu = dyn_cast<tn::GeluOp>(user);
    if (gelu && gelu.getApproximate()) {
      activation = engine::LibraryActivation::GeluTanh;
    } else if (isa<tn::ReluOp>(user)) {
      activation = engine::LibraryActivation::Relu;
    } else if (!isa<tn::AddOp>(user) || !readAdd(result, user)) {
      return false;
    }
    cover(user);
    result = user->getResult(0);
  }
  return false;
}

bool Match::isWhole() const {
  func::FuncOp function = kernel;
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  return terminator->getNumOperands() == 1 && terminator->getOperand(0) == result &&
         static_cast<size_t>(std::distance(block.begin(), block.end())) == covered.size() + 1;
}

void Match::appendBuffers(RegionStep &step) const {
  for (const std::optional<uint32_t> &operand : {bias, residual}) {
    if (operand) {
      step.buffers.push_back(*operand);
    }
  }
  step.reads = step.buffers.size();
  func::FuncOp function = kernel;
  step.buffers.push_back(function.getNumArguments());
}

std::optional<RegionStep> libraryStep(func::FuncOp kernel) {
  bool allowTf32 = kernel->getParentOp()->hasAttr(kAllowTf32);
  for (Operation &op : kernel.getBody().front()) {
    if (maySumNothing(kernel, op)) {
      return std::nullopt;
    }
    if (tn::isFloat8Product(&op)) {
      return scaledMatmulStep(kernel, cast<tn::MatmulOp>(op));
    }
    if (isa<tn::MatmulOp>(op)) {
      return matmulStep(kernel, &op, allowTf32);
    }
    if (isa<tn::ConvOp>(op)) {
      return convStep(kernel, &op, allowTf32);
    }
    if (isa<tn::AttentionOp>(op)) {
      return attentionStep(kernel);
    }
  }
  return std::nullopt;
}

double callSeconds(RegionBuilder &region, const LibraryCall &, const dispatch::KernelChoice &) {
  Block &body = region.source.getBody().front();
  return dispatch::costOfRegion(body, region.gpu, /*isGenerated=*/false).microseconds * 1e-6 +
         tuning::kCallSeconds;
}

namespace {

/// Of a call that is judged by bytes and operations alone.
dispatch::TimeParts callParts(RegionBuilder &region) {
  Block &body = region.source.getBody().front();
  dispatch::Cost cost = dispatch::costOfRegion(body, region.gpu, /*isGenerated=*/false);
  bool isBytes = cost.bytesMicroseconds >= cost.workMicroseconds;
  dispatch::TimeParts time;
  time.add("start", region.gpu.launchSeconds + tuning::kCallSeconds);
  time.add(isBytes ? "bytes" : "products", cost.microseconds * 1e-6 - region.gpu.launchSeconds);
  return time;
}

/// By the depth, which a block goes through alone where the library does not share it out, by
/// operations, or by bytes, of which few do not keep the memory busy, and which come slower where
/// rows do not begin on borders of 16 bytes.
dispatch::TimeParts matmulParts(RegionBuilder &region, const LibraryCall &,
                                const dispatch::KernelChoice &) {
  MatchResult<GemmProblem> problem = matchGemm(region.source);
  if (!problem) {
    return callParts(region);
  }
  double rows = double(region.estimate(problem->rows)),
         columns = double(region.estimate(problem->columns)),
         depth = double(region.estimate(problem->depth)),
         batch = double(region.estimate(problem->batch));
  bool isAligned = problem->columns.isMultipleOf(8) && problem->depth.isMultipleOf(8);
  bool isHalf = problem->a.at.element.getIntOrFloatBitWidth() == 16;
  bool isFloat8 = problem->a.at.element.getIntOrFloatBitWidth() == 8;
  double bytes = (isHalf ? 2 : 4) * batch * (rows * depth + columns * depth + rows * columns);
  if (isFloat8) {
    bytes = rows * depth + columns * depth + 2 * rows * columns;
  }
  double streamed = bytes / region.gpu.memoryBandwidth,
         few = tuning::kFewBytesSeconds * std::min(bytes, tuning::kFewBytes);
  double slowed = (isAligned ? 0 : tuning::kOddRows - 1) * (streamed + few);
  double flops = 2 * batch * rows * columns * depth;
  if (isHalf && !isAligned) {
    // Kernels for odd borders do whole tiles of 128 rows.
    flops = tuning::kOddFlops * 2 * batch * std::ceil(rows / 128) * 128 * columns * depth;
  }
  double products = flops / (isFloat8 ? region.gpu.halfPeak * target::kFloat8Speed
                             : isHalf ? region.gpu.halfPeak
                                      : region.gpu.peak);
  double along = tuning::kDepthSeconds * depth;
  dispatch::TimeParts time;
  time.add("start", tuning::kMatmulSeconds);
  if (streamed + few + slowed >= std::max(products, along)) {
    time.add("memory", streamed);
    time.add("few-bytes", few);
    time.add("odd-rows", slowed);
  } else {
    time.add(products > along ? "products" : "depth", std::max(products, along));
  }
  return time;
}

double matmulSeconds(RegionBuilder &region, const LibraryCall &call,
                     const dispatch::KernelChoice &choice) {
  return matmulParts(region, call, choice).microseconds() * 1e-6;
}

/// By the steps of an implicit GEMM of 128 x 64 results, each through all of the filter; of groups,
/// which the library multiplies one by one, by operations.
dispatch::TimeParts convParts(RegionBuilder &region, const LibraryCall &,
                              const dispatch::KernelChoice &) {
  tn::ConvOp conv = *region.source.getOps<tn::ConvOp>().begin();
  ArrayRef<int64_t> filter = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  double depth = 1;
  for (int64_t dim : filter.drop_front()) {
    depth *= double(dim);
  }
  double results = double(region.estimate(tn::getDims(conv.getType())));
  bool isHalf = conv.getType().getElementTypeBitWidth() == 16;
  dispatch::TimeParts time;
  if (conv.getGroups() > 1 && isHalf) {
    time.add("start", tuning::kGroupedConvSeconds);
    time.add("products", 2 * results * depth / tuning::kGroupedConvRate);
    return time;
  }
  double columns = double(filter.front()), cores = double(region.gpu.cores);
  double blocks = results / columns / 128 * std::ceil(columns / 64),
         waves = std::ceil(blocks / cores);
  time.add("start", tuning::kConvSeconds);
  bool isNarrow = isHalf && filter[1] <= tuning::kNarrowConvChannels;
  double steps =
      waves * depth * tuning::kConvDepthSeconds * (isNarrow ? tuning::kNarrowConvFactor : 1);
  double idle = idleSeconds(steps, blocks, waves, cores);
  time.add("depth", steps - idle);
  time.add("idle", idle);
  dispatch::TimeParts ofBytes = callParts(region);
  return ofBytes.microseconds() > time.microseconds() ? ofBytes : time;
}

double convSeconds(RegionBuilder &region, const LibraryCall &call,
                   const dispatch::KernelChoice &choice) {
  return convParts(region, call, choice).microseconds() * 1e-6;
}

/// Of a choice's own parameter, counted from 0.
uint8_t proposalOf(const dispatch::KernelChoice &choice) {
  return choice.parameters.empty() ? 0 : static_cast<uint8_t>(candidateOf(choice) - 1);
}

/// The library's proposals, in its order: it says no times.
template <auto Seconds>
double proposalSeconds(RegionBuilder &region, const LibraryCall &call,
                       const dispatch::KernelChoice &choice) {
  return Seconds(region, call, choice) * (1 + tuning::kProposalShare * proposalOf(choice));
}

/// The choice that says nothing takes the first proposal; which others there are is known when the
/// engine loads.
std::vector<dispatch::KernelChoice> proposalsOf(StringRef family) {
  std::vector<dispatch::KernelChoice> choices = {{family.str(), {}}};
  for (int64_t proposal = 2; proposal <= engine::kMaxProposals; ++proposal) {
    choices.push_back({family.str(), {{"proposal", {proposal}}}});
  }
  return choices;
}

std::vector<dispatch::KernelChoice> matmulProposals(RegionBuilder &, const LibraryCall &) {
  return proposalsOf(kCublasLt.name);
}

std::vector<dispatch::KernelChoice> convProposals(RegionBuilder &, const LibraryCall &) {
  return proposalsOf(kCudnnConv.name);
}

/// The descriptor with the choice's proposal in place of the compiler's hint.
RegionStep stepOf(const LibraryCall &call, const dispatch::KernelChoice &choice) {
  RegionStep step = call.step;
  uint8_t proposal = proposalOf(choice);
  if (proposal == 0) {
    return step;
  }
  switch (static_cast<engine::LibraryOp>(step.call.front())) {
  case engine::LibraryOp::Matmul: {
    engine::MatmulHint hint{.algorithm = proposal};
    std::memcpy(step.call.data() + offsetof(engine::MatmulCall, hint), &hint, sizeof(hint));
    break;
  }
  case engine::LibraryOp::ScaledMatmul:
    step.call[offsetof(engine::ScaledMatmulCall, proposal)] = std::byte(proposal);
    break;
  case engine::LibraryOp::Conv:
    step.call[offsetof(engine::ConvCall, proposal)] = std::byte(proposal);
    break;
  case engine::LibraryOp::Attention:
    break; // has no proposals
  }
  return step;
}

/// Without a choice the library's own heuristics decide when the engine loads.
template <typename Root> FamilyMatch matchCall(RegionBuilder &region, StringRef family) {
  if (region.source.getOps<Root>().empty()) {
    return FamilyMatch::refuse("the region has another root");
  }
  std::optional<RegionStep> step = libraryStep(region.source);
  if (!step) {
    return FamilyMatch::refuse("no single call computes all of the region");
  }
  return FamilyMatch::take(LibraryCall{std::move(*step)}, {family.str(), {}},
                           "one call computes all of the region");
}

FamilyMatch matchCublasLt(RegionBuilder &region) {
  return matchCall<tn::MatmulOp>(region, kCublasLt.name);
}

FamilyMatch matchCudnnConv(RegionBuilder &region) {
  return matchCall<tn::ConvOp>(region, kCudnnConv.name);
}

std::optional<dispatch::WeightLayout> convWeights(RegionBuilder &region, const LibraryCall &) {
  return channelsLastWeight(region.source);
}

LogicalResult emitCall(RegionBuilder &region, const LibraryCall &call,
                       const dispatch::KernelChoice &choice) {
  region.code.steps.push_back(stepOf(call, choice));
  return success();
}

} // namespace

LogicalResult emitCallWithFallback(RegionBuilder &region, const LibraryCall &call,
                                   const dispatch::KernelChoice &choice) {
  region.code.steps.push_back(stepOf(call, choice));
  // One kernel stands in for a call, whatever sizes it has.
  std::vector<std::string> others = {choice.family};
  for (const KernelFamily *family : kernelFamilies().families()) {
    if (family->isSplitBySizes) {
      others.push_back(family->name.str());
    }
  }
  llvm::Expected<dispatch::KernelSelection> fallback =
      kernelFamilies().select(region, {nullptr, others});
  if (!fallback) {
    return region.source.emitError(llvm::toString(fallback.takeError()));
  }
  if (failed(kernelFamilies().emit(region, fallback->chosen))) {
    return failure();
  }
  for (RegionStep &launch : MutableArrayRef(region.code.steps).drop_front()) {
    launch.isFallback = true;
  }
  return success();
}

constexpr KernelFamily kCublasLt = {
    .name = "cublaslt",
    .what = "cublasLtMatmul, with bias, residual and activation as its epilogue",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchCublasLt,
    .configs = on<matmulProposals>,
    .seconds = on<proposalSeconds<matmulSeconds>>,
    .parts = on<matmulParts>,
    .epilogueSeconds = epilogueSeconds,
    .emit = on<emitCall>,
    .isCall = true};

constexpr KernelFamily kCudnnConv = {
    .name = "cudnn_conv",
    .what = "a cuDNN graph of a convolution, with bias, residual and activation",
    .strategies = {dispatch::kContraction},
    .needs = {"conv"},
    .match = matchCudnnConv,
    .configs = on<convProposals>,
    .seconds = on<proposalSeconds<convSeconds>>,
    .parts = on<convParts>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<convWeights>,
    .emit = on<emitCallWithFallback>,
    .isCall = true};

} // namespace tenon::codegen::cuda
