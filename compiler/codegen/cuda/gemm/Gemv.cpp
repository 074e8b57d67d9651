// From a region to the problem, and from the problem to a layout.
#include "compiler/codegen/cuda/gemm/Gemv.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/GemvKernel.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/codegen/cuda/gemm/SlicedGemm.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Invariance.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

bool isArgument(Value value) { return isa<BlockArgument>(value); }

uint32_t numberOf(Value value) { return cast<BlockArgument>(value).getArgNumber(); }

/// Reads where the weights lie: packed in panels of 32 of the depth, as they will be if they may be
/// laid out, or as [columns, depth].
bool readWeights(GemvProblem &problem, tn::MatmulOp op) {
  tn::UnpackOp unpack = op.getB().getDefiningOp<tn::UnpackOp>();
  Value stored = unpack ? unpack.getPacked() : op.getB();
  if (!isArgument(stored)) {
    return false;
  }
  problem.weights = numberOf(stored);
  problem.element = getElementTypeOrSelf(stored);
  bool isOnePanel = unpack && isPackedInPanels(unpack, op.getTransposeB(), problem.depth);
  problem.isPacked = !isOnePanel && (unpack || packableInput(stored));
  if (!problem.isPacked) {
    problem.columnStride = problem.depth;
    problem.panelStride = kGemvPanel;
    return isOnePanel || op.getTransposeB();
  }
  problem.columnStride = kGemvPanel;
  problem.panelStride = problem.columns * kGemvPanel;
  return !unpack || isPackedInPanels(unpack, op.getTransposeB(), kGemvPanel);
}

} // namespace

int64_t partsOfColumns(tn::MatmulOp op, Value result) {
  tn::Dims whole = tn::getDims(op.getType()), dims = tn::getDims(result.getType());
  if (tn::sameDims(whole, dims)) {
    return 1;
  }
  int64_t columns = tn::constantDim(whole.back()).value_or(0);
  std::optional<int64_t> part = tn::constantDim(dims.back());
  auto isPart = [&](Operation *user) {
    tn::SliceOp slice = dyn_cast<tn::SliceOp>(user);
    if (!slice || !tn::sameDims(tn::getDims(slice.getType()), dims)) {
      return false;
    }
    ArrayRef<AffineExpr> starts = slice.getStarts().getResults();
    std::optional<int64_t> start = tn::constantDim(starts.back());
    bool isWhole = llvm::all_of(
        starts.drop_back(), [](AffineExpr expression) { return tn::constantDim(expression) == 0; });
    return isWhole && start && *start % *part == 0 &&
           llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
  };
  return part && *part * 2 == columns && llvm::all_of(op.getY().getUsers(), isPart) ? 2 : 0;
}

MatchResult<GemvProblem> matchGemv(RegionBuilder &region) {
  auto ops = region.source.getOps<tn::MatmulOp>();
  if (!llvm::hasSingleElement(ops) || region.source.getNumResults() != 1) {
    return MatchFailure{"it is not one product with one result"};
  }
  tn::MatmulOp op = *ops.begin();
  if (!isStreamed(op)) {
    return MatchFailure{
        "only 1 to 16 rows of f16 or bf16 by a matrix, the depth a multiple of 8 and at "
        "least 256, are bound by the stream of weights"};
  }
  GemvProblem problem;
  tn::Dims dims = tn::getDims(op.getType());
  std::optional<HalfGemm> sizes = halfGemmOf(op);
  problem.rowCount = rowCountOf(op.getA().getType());
  problem.rows = sizes->rows;
  problem.rowDims.assign(dims.begin(), dims.end() - 1);
  problem.columns = sizes->columns;
  problem.depth = sizes->depth;
  Operation *exit = region.source.getBody().front().getTerminator();
  problem.parts = partsOfColumns(op, exit->getOperand(0));
  if (problem.parts == 0) {
    return MatchFailure{
        "what follows reads other parts than the whole or the two halves of the columns"};
  }
  if (!readWeights(problem, op) || !region.source.getArgAttr(problem.weights, kConstantArgument)) {
    return MatchFailure{"B is not a constant that lies as [columns, depth] or in panels of 32"};
  }
  Value a = readStreamedNorm(op.getA(), problem.norm);
  if (!a || !isArgument(a) || !productTensors(region)) {
    return MatchFailure{"A is computed by something else than an RMS norm of its rows"};
  }
  problem.input = numberOf(a);
  problem.isInvariant = tn::isInvariant(region.source);
  return problem;
}

namespace {

GemvLayout layoutOf(const GemvProblem &problem, int64_t warps, int64_t blocksPerSm,
                    const target::Target &gpu) {
  bool isNarrow = problem.rows <= kMmaColumns;
  GemvLayout layout;
  layout.warps = warps;
  layout.blocksPerSm = blocksPerSm;
  // With two groups of rows, registers for two blocks of a processor hold half as many panels.
  bool areFew = warps > tuning::kGemvWarps || (!isNarrow && blocksPerSm > 1);
  int64_t most = areFew ? tuning::kGemvFewPanels : tuning::kGemvPanels;
  int64_t slice = llvm::divideCeilSigned(problem.panels(), warps);
  layout.chunks = llvm::divideCeilSigned(slice, most);
  layout.panels = llvm::divideCeilSigned(slice, layout.chunks);
  if (!problem.isPacked) {
    layout.panels = llvm::alignTo(layout.panels, 2); // two lie in a line
  }
  int64_t waves = llvm::divideCeilSigned(problem.tiles(), gpu.cores * blocksPerSm);
  layout.blocks = llvm::divideCeilSigned(problem.tiles(), waves);
  return layout;
}

} // namespace

/// What was the fastest (Tuning.h).
GemvLayout chooseGemvLayout(const GemvProblem &problem, const target::Target &gpu) {
  bool isNarrow = problem.rows <= kMmaColumns;
  bool isLong = problem.panels() > (isNarrow ? tuning::kGemvLongNarrow : tuning::kGemvLongWide);
  bool isShared = !isLong && problem.isPacked && problem.tiles() > gpu.cores;
  return layoutOf(problem, isLong ? tuning::kGemvLongWarps : tuning::kGemvWarps,
                  isShared ? tuning::kGemvBlocksPerSm : 1, gpu);
}

bool emitGemv(RegionBuilder &region, const GemvProblem &problem, const GemvLayout &layout) {
  return GemvKernel(region, problem, layout).emit();
}

namespace {

FamilyMatch matchGemvFamily(RegionBuilder &region) {
  MatchResult<GemvProblem> problem = matchGemv(region);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  return FamilyMatch::take(*problem,
                           dispatch::choiceOf(kGemv.name, chooseGemvLayout(*problem, region.gpu)),
                           "few rows: the weights stream from memory once");
}

/// Blocks of 8 and 16 warps, one and two of them a multiprocessor.
std::vector<dispatch::KernelChoice> gemvConfigs(RegionBuilder &region, const GemvProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (int64_t warps : {tuning::kGemvWarps, tuning::kGemvLongWarps}) {
    for (int64_t blocks : {int64_t(1), tuning::kGemvBlocksPerSm}) {
      // Two blocks of 16 warps leave a thread 64 registers: too few for what is under way.
      if (warps * blocks <= tuning::kGemvLongWarps) {
        choices.push_back(
            dispatch::choiceOf(kGemv.name, layoutOf(problem, warps, blocks, region.gpu)));
      }
    }
  }
  return choices;
}

/// The stream of weights, with waves of blocks that are not all full, and the accumulators that
/// meet.
dispatch::TimeParts gemvParts(RegionBuilder &region, const GemvProblem &problem,
                              const dispatch::KernelChoice &choice) {
  GemvLayout layout = configOf<GemvLayout>(choice);
  double tiles = double(problem.tiles()), atOnce = double(layout.blocks);
  double waves = std::ceil(tiles / atOnce);
  double memory = 2.0 * problem.depth * waves * 16 * layout.blocks / region.gpu.memoryBandwidth;
  double idle = idleSeconds(memory, tiles, waves, atOnce);
  dispatch::TimeParts time{{}, problem.tiles(), layout.blocks, 0};
  time.add("start", tuning::kGemvSeconds);
  time.add("out", tuning::kGemvWaveSeconds * waves);
  time.add("memory", memory - idle);
  time.add("idle", idle);
  time.add("norm",
           problem.norm ? tuning::kGemvNormedSeconds * double(problem.rows * problem.depth) : 0);
  return time;
}

double gemvSeconds(RegionBuilder &region, const GemvProblem &problem,
                   const dispatch::KernelChoice &choice) {
  return gemvParts(region, problem, choice).microseconds() * 1e-6;
}

std::optional<dispatch::WeightLayout> gemvWeights(RegionBuilder &region, const GemvProblem &) {
  return layoutInDepthPanels(region, kGemvPanel);
}

LogicalResult emitChosenGemv(RegionBuilder &region, const GemvProblem &problem,
                             const dispatch::KernelChoice &choice) {
  return success(emitGemv(region, problem, configOf<GemvLayout>(choice)));
}

/// Warps are the slices, where lanes lie in lines of two panels. A norm is shared out by how many
/// rows there are.
std::string gemvOrder(RegionBuilder &, const GemvProblem &problem,
                      const dispatch::KernelChoice &choice) {
  GemvLayout layout = configOf<GemvLayout>(choice);
  bool isSliced = problem.isInvariant && !problem.isPacked && layout.warps == kSlices &&
                  layout.panels * layout.chunks * kGemvPanel == sliceDepth(problem.depth);
  if (!isSliced || (problem.norm && problem.rows != 1)) {
    return "";
  }
  return behind(slicedOrder(problem.depth), problem.norm ? slicedNormOrder() : "");
}

} // namespace

constexpr KernelFamily kGemv = {
    .name = "gemv",
    .what = "GEMV and skinny GEMM of up to 16 rows: weights stream from memory into MMA fragments",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchGemvFamily,
    .configs = on<gemvConfigs>,
    .seconds = on<gemvSeconds>,
    .parts = on<gemvParts>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<gemvWeights>,
    .emit = on<emitChosenGemv>,
    .order = on<gemvOrder>,
    .fewRows = {1, kMaxStreamedRows / 2, kMaxStreamedRows}};

} // namespace tenon::codegen::cuda
