// Which regions are products of few rows by weights of few bits, and how long they take. Relies on
// LowBitGemvKernel.cpp for the kernel.
#include "compiler/codegen/cuda/gemm/LowBitGemv.h"
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/TnRare.h"

using namespace mlir;

namespace tenon::codegen::cuda {

/// Panels under way in a warp, to keep the memory busy with 4 bytes a load; of many rows fewer, by
/// which code stays as small.
constexpr int64_t kPanelsUnderWay = 8;

int64_t panelsUnderWay(const LowBitProblem &problem) {
  return problem.rows <= kMaxStreamedRows ? kPanelsUnderWay : kPanelsUnderWay / 2;
}

MatchResult<LowBitProblem> matchLowBitGemv(RegionBuilder &region) {
  auto ops = region.source.getOps<tn::MatmulOp>();
  if (!llvm::hasSingleElement(ops) || region.source.getNumResults() != 1) {
    return MatchFailure{"it is not one product with one result"};
  }
  tn::MatmulOp op = *ops.begin();
  tn::DecodeRowsOp rows = op.getB().getDefiningOp<tn::DecodeRowsOp>();
  LowBitProblem problem;
  Value input = readStreamedNorm(op.getA(), problem.norm);
  BlockArgument a = input ? dyn_cast<BlockArgument>(input) : BlockArgument();
  BlockArgument weights = rows ? dyn_cast<BlockArgument>(rows.getRows()) : BlockArgument();
  Operation *exit = region.source.getBody().front().getTerminator();
  problem.parts = partsOfColumns(op, exit->getOperand(0));
  if (!a || !weights || !op.getTransposeB() || op.getTransposeA() || problem.parts == 0) {
    return MatchFailure{
        "it is no product of an input, or its RMS norm, by weights of 4 or 8 bits with elementwise "
        "operations behind the whole or the two halves of its columns"};
  }
  problem.element = op.getType().getElementType();
  problem.layout = rows.layout();
  tn::Dims dims = tn::getDims(op.getType());
  RowRange range = rowRangeOf(region.source, op.getA().getType());
  problem.rowCount = rowCountOf(op.getA().getType());
  bool isHalf = problem.element.isF16() || problem.element.isBF16();
  const tn::BlockRows &layout = problem.layout;
  if (!isHalf || range.least < 1 || range.most > kMaxLowBitRows ||
      layout.block % kLowBitPanel != 0 || layout.depth % layout.block != 0 ||
      !productTensors(region)) {
    return MatchFailure{"only 1 to 64 rows of f16 or bf16 by whole blocks of a multiple of 32 read "
                        "weights as they are stored"};
  }
  problem.input = a.getArgNumber();
  problem.weights = weights.getArgNumber();
  problem.rowDims.assign(dims.begin(), dims.end() - 1);
  problem.rows = range.most;
  problem.columns = *tn::constantDim(dims.back());
  return problem;
}

/// An odd number of 16 bytes, so that the words of 8 columns lie in different banks.
int64_t lowBitChunkPitch(const LowBitProblem &problem, const LowBitLayout &layout) {
  int64_t words = layout.blocks * problem.layout.blockWords();
  return words / 4 % 2 ? words : words + 4;
}

/// Whether blocks of activations are summed up as they come to shared memory: each by lanes side by
/// side of one warp, of which all take part. An excess of 128 costs sums of bf16 no precision that
/// the result has; one of 1,024, which f16 would come with, costs some.
static bool hasTotals(const LowBitProblem &problem) {
  const tn::BlockRows &layout = problem.layout;
  bool isOfLanes = llvm::isPowerOf2_64(layout.block) && layout.block <= kLowBitPart * kWarp &&
                   layout.depth % (kLowBitPart * kWarp) == 0;
  return isOfLanes && problem.element.isBF16() && (layout.bits == 4 || layout.hasZeroPoints);
}

LowBitMemory lowBitMemory(const LowBitProblem &problem, const LowBitLayout &layout) {
  int64_t depth = problem.layout.depth, buffers = layout.grid < problem.tiles() ? 2 : 1;
  LowBitMemory memory;
  memory.sums = 4 * buffers * layout.warps * problem.sumRows() * kLowBitSumPitch;
  memory.rows =
      problem.rows * depth <= kMaxNormedElements ? 2 * problem.rows * normedPitchOf(depth) : 0;
  if (memory.rows > 0 && hasTotals(problem)) {
    memory.totals = llvm::alignTo(4 * problem.rows * problem.layout.blocks(), 16);
  }
  memory.stages =
      4 * layout.warps * layout.stages * kLowBitColumns * lowBitChunkPitch(problem, layout);
  return memory;
}

namespace {

/// Whether words lie on borders of 16 bytes and every warp has whole steps of them.
bool fitsStages(const LowBitProblem &problem, const LowBitLayout &layout) {
  int64_t blocks = problem.layout.blocks(), ofStep = layout.blocks * layout.warps;
  return blocks % ofStep == 0 && layout.blocks * problem.layout.blockWords() % 4 == 0 &&
         problem.layout.rowWords() % 4 == 0;
}

/// As many stages as there is room for, where `blocksPerSm` share a multiprocessor.
int64_t stagesThatFit(const LowBitProblem &problem, LowBitLayout layout, int64_t blocksPerSm,
                      const target::Target &gpu) {
  int64_t steps = problem.layout.blocks() / (layout.blocks * layout.warps);
  int64_t tiles = llvm::divideCeilSigned(problem.tiles(), layout.grid);
  layout.stages = std::min(steps * tiles, tuning::kLowBitStages);
  while (layout.stages > 0 &&
         lowBitMemory(problem, layout).total() > gpu.sharedOfBlock(blocksPerSm)) {
    --layout.stages;
  }
  return layout.stages;
}

} // namespace

/// Where one wave holds all tiles, as many warps share a column as still have a few panels each:
/// what one of them does is all that is waited for. Else a block's warps are few, and its tiles
/// follow each other.
LowBitLayout chooseLowBitLayout(const LowBitProblem &problem, const target::Target &gpu) {
  LowBitLayout layout;
  layout.rows = problem.sumRows();
  int64_t panels = problem.layout.depth / kLowBitPanel;
  bool isOneWave = problem.tiles() <= gpu.cores * tuning::kGemvBlocksPerSm;
  if (isOneWave) {
    // 32 warps leave a thread 64 registers, too few for two groups of rows.
    bool areFew = problem.tiles() <= gpu.cores && problem.rowGroups() == 1;
    int64_t most = areFew ? tuning::kLowBitMostWarps : tuning::kGemvLongWarps;
    while (layout.warps < most && panels >= 2 * layout.warps * tuning::kLowBitLeastPanels) {
      layout.warps *= 2;
    }
  } else if (panels >= tuning::kLowBitLongPanels) {
    layout.warps = tuning::kGemvLongWarps;
  }
  while (layout.warps > 1 && problem.layout.blocks() < layout.warps) {
    layout.warps /= 2;
  }
  auto setBlocks = [&] {
    int64_t ofWarp = llvm::divideCeilSigned(problem.layout.blocks(), layout.warps);
    layout.blocks = std::clamp<int64_t>(
        panelsUnderWay(problem) * kLowBitPanel / problem.layout.block, 1, ofWarp);
  };
  setBlocks();
  while (layout.warps > tuning::kGemvWarps && !fitsStages(problem, layout)) {
    layout.warps /= 2;
    setBlocks();
  }
  bool isShared = layout.warps <= tuning::kGemvWarps ||
                  (isOneWave && problem.tiles() > gpu.cores && problem.rows <= kMmaColumns);
  layout.blocksPerSm = isShared ? tuning::kGemvBlocksPerSm : 1;
  layout.grid = problem.tiles();
  if (fitsStages(problem, layout)) {
    int64_t waves = llvm::divideCeilSigned(problem.tiles(), gpu.cores * layout.blocksPerSm);
    layout.grid = llvm::divideCeilSigned(problem.tiles(), waves);
    layout.stages = stagesThatFit(problem, layout, layout.blocksPerSm, gpu);
    layout.grid = layout.stages > 0 ? layout.grid : problem.tiles();
  }
  return layout;
}

namespace {

FamilyMatch matchLowBitFamily(RegionBuilder &region) {
  MatchResult<LowBitProblem> problem = matchLowBitGemv(region);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  return FamilyMatch::take(
      *problem, dispatch::choiceOf(kGemvLowBit.name, chooseLowBitLayout(*problem, region.gpu)),
      "few rows: weights of few bits stream from memory once");
}

/// Instructions of a warp for 16 columns of a panel, as counted in machine code.
double instructionsOfPanel(const LowBitProblem &problem) {
  double wide = problem.layout.bits == 8 ? 16 : 0;
  return wide + (problem.isOneRow() ? 31 : 37 + 13.0 * double(problem.rowGroups()));
}

/// The stream of weights, at what copies of 16 bytes reach of the memory, or the conversion of
/// their numbers.
double lowBitSeconds(RegionBuilder &region, const LowBitProblem &problem,
                     const dispatch::KernelChoice &) {
  constexpr double kSeconds = 2.5e-6, kOfMemory = 0.7, kPerSecond = 4 * 1.6e9;
  double bytes = double(problem.columns) * double(problem.layout.rowBytes());
  double panels = double(problem.tiles()) * double(problem.layout.depth / kLowBitPanel);
  double normed = problem.norm ? double(problem.rows * problem.layout.depth) : 0;
  double work = panels * instructionsOfPanel(problem) / (kPerSecond * double(region.gpu.cores));
  return kSeconds + tuning::kGemvNormedSeconds * normed +
         std::max(bytes / (kOfMemory * region.gpu.memoryBandwidth), work);
}

LogicalResult emitChosen(RegionBuilder &region, const LowBitProblem &problem,
                         const dispatch::KernelChoice &choice) {
  return success(emitLowBitGemv(region, problem, configOf<LowBitLayout>(choice)));
}

} // namespace

constexpr KernelFamily kGemvLowBit = {
    .name = "gemv_low_bit",
    .what = "GEMV and skinny GEMM of up to 64 rows by weights of 4 or 8 bits, which become MMA "
            "fragments in registers",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchLowBitFamily,
    .seconds = on<lowBitSeconds>,
    .epilogueSeconds = epilogueSeconds,
    .emit = on<emitChosen>,
    .fewRows = {1, kMaxStreamedRows / 2, kMaxStreamedRows, kMaxLowBitRows / 2, kMaxLowBitRows}};

} // namespace tenon::codegen::cuda
