// A sum over ranks, a residual and an RMSNorm as one kernel where the message is short; a message
// and a kernel of rows behind it where it is not, which the runtime decides by its size.
#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/collective/Collective.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/codegen/cuda/gemm/SlicedGemm.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/TnRare.h"
#include "compiler/graph/TnShard.h"
#include "compiler/target/Collectives.h"
#include "engine/CollectiveAbi.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Wider rows would take too many of a thread's registers.
constexpr int64_t kMostWidth = 16384;

struct NormedSum {
  AllReduceNormKernel kernel;
  uint32_t summand = 0, residual = 0, weight = 0; ///< the region's inputs
  std::optional<unsigned> hidden, norm;           ///< its outputs
  AffineExpr rows, elements;
};

std::optional<uint32_t> inputOf(Value value) {
  BlockArgument argument = dyn_cast<BlockArgument>(value);
  return argument ? std::optional(argument.getArgNumber()) : std::nullopt;
}

MatchResult<NormedSum> normedSumOf(func::FuncOp source) {
  auto sums = source.getOps<tn::AllReduceOp>();
  auto adds = source.getOps<tn::AddOp>();
  auto norms = source.getOps<tn::RmsNormOp>();
  auto body = source.getBody().front().without_terminator();
  bool areThree = llvm::range_size(body) == 3 && llvm::hasSingleElement(sums) &&
                  llvm::hasSingleElement(adds) && llvm::hasSingleElement(norms);
  if (!areThree) {
    return MatchFailure{"it is not a sum over ranks, a residual and an RMSNorm"};
  }
  tn::AllReduceOp sum = *sums.begin();
  tn::AddOp add = *adds.begin();
  tn::RmsNormOp norm = *norms.begin();
  Value other = add->getOperand(add->getOperand(0) == sum.getY() ? 1 : 0);
  Type element = getElementTypeOrSelf(sum.getX());
  std::optional<uint32_t> summand = inputOf(sum.getX()), residual = inputOf(other),
                          weight = norm.getScale() ? inputOf(norm.getScale()) : std::nullopt;
  if (!summand || !residual || !weight || norm.getX() != add->getResult(0) || !isOfRows(norm)) {
    return MatchFailure{"the norm is not one of rows of the sum with the residual, by a weight"};
  }
  int64_t width = *tn::constantDim(tn::getDims(norm.getX().getType()).back());
  int64_t lanes = engine::kCollectiveVector / 2;
  if (!(element.isF16() || element.isBF16()) || width % lanes != 0 || width > kMostWidth ||
      sum.getRanks() > engine::kCollectiveRanks) {
    return MatchFailure{"rows are not of a multiple of eight f16 or bf16 of at most 16384, on at "
                        "most eight ranks"};
  }
  NormedSum found;
  found.kernel = {*tn::dtypeOf(element), int64_t(sum.getRanks()), width,
                  float(norm.getEpsilon().convertToDouble())};
  found.summand = *summand;
  found.residual = *residual;
  found.weight = *weight;
  for (auto [i, result] :
       llvm::enumerate(source.getBody().front().getTerminator()->getOperands())) {
    if (result == sum.getY()) {
      return MatchFailure{"the sum itself is read elsewhere"};
    }
    (result == norm.getY() ? found.norm : found.hidden) = i;
  }
  found.rows = rowCountOf(norm.getX().getType());
  found.elements = tn::elementCount(source.getContext(), tn::getDims(norm.getX().getType()));
  return found;
}

FamilyMatch matchNormedSum(RegionBuilder &region) {
  MatchResult<NormedSum> sum = normedSumOf(region.source);
  return sum ? FamilyMatch::take(std::move(*sum)) : FamilyMatch::refuse(sum.why());
}

double normedSumSeconds(RegionBuilder &region, const NormedSum &sum,
                        const dispatch::KernelChoice &) {
  dispatch::CostModel costs(region.source->getParentOfType<ModuleOp>(), region.gpu);
  target::Collectives collectives(region.gpu);
  tn::RmsNormOp norm = *region.source.getOps<tn::RmsNormOp>().begin();
  int64_t bytes = costs.bytesOf(norm.getX());
  if (bytes <= engine::kNormedBytes) {
    return collectives.normedSeconds(bytes, sum.kernel.ranks);
  }
  tn::AddOp add = *region.source.getOps<tn::AddOp>().begin();
  return collectives.seconds(target::Collective::AllReduce, bytes, sum.kernel.ranks) +
         costs.costOf({add, norm}).microseconds * 1e-6;
}

/// The kernel that `emitAllReduceNorm` adds to the region, as a step without buffers and sizes.
RegionStep kernelStep(RegionBuilder &region, const AllReduceNormKernel &kernel) {
  emitAllReduceNorm(region, kernel);
  RegionStep step = std::move(region.code.steps.back());
  region.code.steps.pop_back();
  step.buffers.clear();
  step.sizes.clear();
  return step;
}

LogicalResult emitNormedSum(RegionBuilder &region, const NormedSum &sum,
                            const dispatch::KernelChoice &) {
  auto place = [&](std::optional<unsigned> output) {
    int64_t bytes = bitWidth(sum.kernel.type) / 8;
    return output ? region.output(*output) : region.addTemporary(sum.elements * bytes);
  };
  unsigned hidden = place(sum.hidden), norm = place(sum.norm);
  Program elements = programOf(sum.elements), rows = programOf(sum.rows);
  Program blocks = programOf(sum.rows * blocksOfRow(sum.kernel));

  RegionStep all = kernelStep(region, sum.kernel);
  all.collective = {engine::CollectiveKind::AllReduce, sum.kernel.type};
  all.buffers = {sum.summand, sum.residual, sum.weight, hidden, norm};
  all.reads = 3;
  all.sizes = {elements, blocks};
  all.grid = {};
  all.isDependentLaunch = false; // as the runtime starts it
  region.code.steps.push_back(std::move(all));

  RegionStep message;
  message.collective = {engine::CollectiveKind::AllReduce, sum.kernel.type};
  message.collectiveKernels =
      collectiveKernels(engine::CollectiveKind::AllReduce, sum.kernel.type, sum.kernel.ranks);
  message.buffers = {sum.summand, norm};
  message.reads = 1;
  message.sizes = {elements};
  message.isFallback = true;
  region.code.steps.push_back(std::move(message));

  AllReduceNormKernel alone = sum.kernel;
  alone.ranks = 1;
  RegionStep behind = kernelStep(region, alone);
  behind.buffers = {sum.residual, sum.weight, hidden, norm};
  behind.reads = 2;
  behind.grid = rows;
  behind.isFallback = true;
  region.code.steps.push_back(std::move(behind));
  return success();
}

std::string normedSumOrder(RegionBuilder &, const NormedSum &, const dispatch::KernelChoice &) {
  return behind(slicedNormOrder(), "in the order of ranks");
}

} // namespace

constexpr KernelFamily kNormedSum = {
    .name = "all_reduce_norm",
    .what = "what GPUs add up, a residual and the RMSNorm of both: one kernel for short messages",
    .strategies = {dispatch::kSingle},
    .needs = {"all_reduce"},
    .match = matchNormedSum,
    .seconds = on<normedSumSeconds>,
    .emit = on<emitNormedSum>,
    .order = on<normedSumOrder>};

} // namespace tenon::codegen::cuda
