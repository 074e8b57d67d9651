// Convolutions of bytes by products of warpgroups, in the frame of the others (Conv.cpp): their
// tiles, the estimate that chooses one, and the family. Relies on copies of 16 bytes, which keep
// the swizzle of those products.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "compiler/codegen/cuda/conv/Conv.h"
#include "compiler/codegen/cuda/conv/Tuning.h"
#include "compiler/codegen/cuda/gemm/TiledGemm.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/dispatch/Strategy.h"

#include <algorithm>

using namespace mlir;

namespace tenon::codegen::cuda {

GemmTile warpgroupTile(int64_t rows, int64_t columns) {
  GemmTile tile;
  tile.isWarpgroup = true;
  tile.rows = rows;
  tile.columns = columns;
  tile.depth = kTileColumns;
  tile.warpRows = kGroupRows / kWarpsOfGroup;
  tile.warpColumns = columns;
  int64_t stageBytes = (rows + columns) * tile.depth * 2;
  tile.stages =
      std::clamp(tuning::kWarpgroupRing / stageBytes, tuning::kMinStages, tuning::kWarpgroupStages);
  return tile;
}

namespace {

GemmTile tileOf(const dispatch::KernelChoice &choice) {
  GemmTile tile;
  tile.isWarpgroup = true;
  return configOf(choice, tile);
}

int64_t ringBytes(const GemmTile &tile) {
  return tile.stages * (tile.rows + tile.columns) * tile.depth * 2;
}

std::vector<GemmTile> tilesOf(const ConvProblem &problem, const target::Target &gpu) {
  int64_t columns = *tn::constantDim(problem.product.columns);
  std::vector<GemmTile> tiles;
  for (int64_t rows : tuning::kWarpgroupRows) {
    for (int64_t width : tuning::kWarpgroupWidths) {
      GemmTile tile = warpgroupTile(rows, width);
      bool isTooWide = width > tuning::kWarpgroupWidths[0] && width >= 2 * columns;
      if (!isTooWide && ringBytes(tile) + tuning::kBesideStages <= gpu.sharedBytes) {
        tiles.push_back(tile);
      }
    }
  }
  return tiles;
}

/// Blocks of a multiprocessor: with one, nothing is multiplied while its sums go out.
int64_t blocksOf(const GemmTile &tile, const target::Target &gpu) {
  int64_t blocks = tuning::kTiledThreads / tile.threads();
  return std::max<int64_t>(
      1, std::min(blocks, gpu.sharedOfProcessor / (ringBytes(tile) + tuning::kBesideStages)));
}

dispatch::TimeParts estimate(const GemmSizes &sizes, const GemmTile &tile,
                             const target::Target &gpu) {
  double cores = double(gpu.cores), atOnce = cores * double(blocksOf(tile, gpu));
  int64_t steps = llvm::divideCeilSigned(sizes.depth, tile.depth);
  double tiles = double(llvm::divideCeilSigned(sizes.rows, tile.rows) *
                        llvm::divideCeilSigned(sizes.columns, tile.columns) * sizes.batch);
  double waves = std::ceil(tiles / atOnce), ofWave = waves * atOnce / cores;
  double ofTile = double(tile.rows * tile.columns);
  double products = ofWave * double(steps) * 2 * ofTile * double(tile.depth) /
                    (gpu.halfPeak * tuning::kWarpgroupShare / cores);
  double loads = ofWave * double(steps) * double(ringBytes(tile) / tile.stages) * cores /
                 (gpu.cacheBandwidth * tuning::kWarpgroupCache);
  double out = ofWave * ofTile / tuning::kWarpgroupOutRate;
  double memory = sizes.memoryBytes / (gpu.memoryBandwidth * tuning::kWarpgroupMemory);
  double busy = std::max(products, loads);
  double hidden = atOnce > cores ? std::min(busy, out) / 2 : 0;
  dispatch::TimeParts time{{}, int64_t(tiles), int64_t(atOnce), steps};
  time.add("start", tuning::kStartSeconds + tuning::kFillSeconds);
  if (memory > busy + out - hidden) {
    time.add("memory", memory);
    return time;
  }
  double idle = idleSeconds(busy, tiles, waves, atOnce);
  time.add(products > loads ? "products" : "loads", busy - idle);
  time.add("out", out - hidden);
  time.add("idle", idle);
  return time;
}

FamilyMatch matchWarpgroup(RegionBuilder &region) {
  if (!region.gpu.has(target::Feature::WarpgroupMma)) {
    return FamilyMatch::refuse("the target has no products of warpgroups");
  }
  MatchResult<ConvProblem> problem = matchConv(region, /*isHalf=*/true);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  bool isWhole = problem->patchWidth == 8 && problem->filterWidth == 8 &&
                 problem->product.columns.isMultipleOf(kLaneStrip);
  if (!problem->element().isInteger() || !isWhole) {
    return FamilyMatch::refuse(
        "the operands are not bytes, 16 and more along the channels, by columns in eights");
  }
  GemmSizes sizes =
      convSizes(region, *problem, [&](ArrayRef<AffineExpr> dims) { return region.estimate(dims); });
  std::vector<GemmTile> tiles = tilesOf(*problem, region.gpu);
  auto timeOf = [&](const GemmTile &tile) {
    return estimate(sizes, tile, region.gpu).microseconds();
  };
  GemmTile best =
      *std::min_element(tiles.begin(), tiles.end(), [&](const GemmTile &a, const GemmTile &b) {
        return timeOf(a) < timeOf(b);
      });
  return FamilyMatch::take(*problem, dispatch::choiceOf(kConvWarpgroup.name, best),
                           "warpgroups multiply patches by the filter");
}

std::vector<dispatch::KernelChoice> configs(RegionBuilder &region, const ConvProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (const GemmTile &tile : tilesOf(problem, region.gpu)) {
    choices.push_back(dispatch::choiceOf(kConvWarpgroup.name, tile));
  }
  return choices;
}

/// With the guess of sizes that vary by which the other families are judged.
dispatch::TimeParts parts(RegionBuilder &region, const ConvProblem &problem,
                          const dispatch::KernelChoice &choice) {
  dispatch::CostModel costs(region.source->getParentOfType<ModuleOp>(), region.gpu);
  GemmSizes sizes =
      convSizes(region, problem, [&](ArrayRef<AffineExpr> dims) { return costs.countOf(dims); });
  return estimate(sizes, tileOf(choice), region.gpu);
}

double seconds(RegionBuilder &region, const ConvProblem &problem,
               const dispatch::KernelChoice &choice) {
  return parts(region, problem, choice).microseconds() * 1e-6;
}

std::optional<dispatch::WeightLayout> weights(RegionBuilder &region, const ConvProblem &) {
  return channelsLastWeight(region.source);
}

LogicalResult emit(RegionBuilder &region, const ConvProblem &problem,
                   const dispatch::KernelChoice &choice) {
  return success(emitConv(region, problem, tileOf(choice)));
}

} // namespace

constexpr KernelFamily kConvWarpgroup = {
    .name = "conv_warpgroup",
    .what = "implicit GEMM of a convolution of bytes by warpgroups (wgmma): cp.async of patches "
            "into swizzled tiles, blocks that go from tile to tile",
    .strategies = {dispatch::kContraction},
    .needs = {"conv"},
    .match = matchWarpgroup,
    .configs = on<configs>,
    .seconds = on<seconds>,
    .parts = on<parts>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<weights>,
    .emit = on<emit>};

} // namespace tenon::codegen::cuda
