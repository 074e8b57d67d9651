// Finds the root of a contraction and reads what stands around it. Relies on a region having one
// root; whatever the readers do not know word for word is left to generated code.
#include "compiler/codegen/cuda/library/LibraryRegions.h"

#include "compiler/codegen/common/RegionSource.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/StridedTensor.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"

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
  if (tn::UnpackOp unpack = value.getDefiningOp<tn::UnpackOp>()) {
    std::optional<std::array<int64_t, 2>> strides = stridesOfOnePanel(unpack);
    std::optional<uint32_t> packed = inputOf(unpack.getPacked());
    if (!strides || !packed) {
      return std::nullopt;
    }
    cover(unpack);
    MLIRContext *context = unpack.getContext();
    return View{*packed,
                tn::getDims(unpack.getType()),
                {getAffineConstantExpr((*strides)[0], context),
                 getAffineConstantExpr((*strides)[1], context)}};
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

double callCost(RegionBuilder &region, const dispatch::KernelChoice &) {
  // A call's own kernels start later than ours, which the cost of a launch does not have.
  constexpr double kLatency = 2000e-9;
  dispatch::Cost cost = dispatch::costOfRegion(region.source.getBody().front(), region.gpu,
                                               /*isGenerated=*/false);
  return kLatency + cost.microseconds * 1e-6 - region.gpu.launchSeconds;
}

namespace {

/// A call has no configuration of ours: the library's own heuristics choose when the engine loads.
template <typename Root> Offer offerCall(RegionBuilder &region, StringRef family) {
  bool hasRoot = !region.source.getOps<Root>().empty();
  if (!hasRoot || !libraryStep(region.source)) {
    return Offer::refuse(hasRoot ? "no single call computes all of the region"
                                 : "the region has another root");
  }
  return {dispatch::KernelChoice{family.str(), {}}, "one call computes all of the region"};
}

Offer offerCublasLt(RegionBuilder &region) {
  return offerCall<tn::MatmulOp>(region, kCublasLt.name);
}

Offer offerCudnnConv(RegionBuilder &region) {
  return offerCall<tn::ConvOp>(region, kCudnnConv.name);
}

LogicalResult emitCall(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  std::optional<RegionStep> step = libraryStep(region.source);
  if (!step || !choice.parameters.empty()) {
    return region.source.emitError("no call computes it as ") << choice.text();
  }
  region.code.steps.push_back(std::move(*step));
  return success();
}

} // namespace

constexpr KernelFamily kCublasLt = {
    .name = "cublaslt",
    .what = "cublasLtMatmul, with bias, residual and activation as its epilogue",
    .strategies = {dispatch::kContraction},
    .match = offerCublasLt,
    .configs = nullptr,
    .cost = callCost,
    .emit = emitCall};

constexpr KernelFamily kCudnnConv = {
    .name = "cudnn_conv",
    .what = "a cuDNN graph of a convolution, with bias, residual and activation",
    .strategies = {dispatch::kContraction},
    .match = offerCudnnConv,
    .configs = nullptr,
    .cost = callCost,
    .emit = emitCall};

} // namespace tenon::codegen::cuda
