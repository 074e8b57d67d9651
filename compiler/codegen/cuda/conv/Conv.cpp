// Implicit GEMM for convolutions: the tiles, the estimate that chooses one, and the two families.
// Relies on the estimate of products (gemm/Product.h), to which it adds what copies take.
#include "compiler/codegen/cuda/conv/Conv.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/conv/ConvFilter.h"
#include "compiler/codegen/cuda/conv/ConvLoader.h"
#include "compiler/codegen/cuda/conv/Tuning.h"
#include "compiler/codegen/cuda/gemm/TiledGemm.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Tn.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

bool isSimt(const ConvProblem &problem) { return problem.element().isF32(); }

/// Of a stage.
int64_t stageDepth(const ConvProblem &problem) {
  if (isSimt(problem)) {
    return tuning::kConvSimtDepth;
  }
  auto padded = [&](int64_t depth) {
    return double(llvm::divideCeilSigned(problem.depth(), depth) * depth);
  };
  bool isWasted =
      padded(tuning::kConvDepth) > tuning::kConvMuchMore * padded(tuning::kConvShortDepth);
  // Elements that come one by one are many for a thread already.
  bool isByElements = problem.patchWidth == 1 || problem.filterWidth == 1;
  return isWasted || isByElements ? tuning::kConvShortDepth : tuning::kConvDepth;
}

GemmTile simtTile(int64_t rows, int64_t columns) {
  GemmTile tile;
  tile.rows = rows;
  tile.columns = columns;
  tile.depth = tuning::kConvSimtDepth;
  tile.warpRows = std::min<int64_t>(rows, 32);
  tile.warpColumns =
      std::min<int64_t>(columns, rows * columns >= tuning::kConvSimtWideTile ? 64 : 32);
  int64_t stageBytes = (rows + columns) * tile.depth * 4;
  tile.stages = std::clamp(tuning::kRingBytes / stageBytes, tuning::kMinStages, tuning::kMaxStages);
  return tile;
}

bool fits(const GemmTile &tile, int64_t elementBytes, const target::Target &gpu) {
  int64_t pitch = tile.depth + 16 / elementBytes;
  int64_t stages = tile.stages * (tile.rows + tile.columns) * pitch * elementBytes;
  int64_t accumulators = tile.rows * (tile.columns + 8) * 4;
  return std::max(stages, accumulators) + tuning::kBesideStages <= gpu.sharedBytes &&
         tile.splits <= gpu.clusterBlocks;
}

} // namespace

GemmSizes convSizes(RegionBuilder &region, const ConvProblem &problem, CountElements count) {
  const GemmProblem &product = problem.product;
  auto bytesOf = [&](Type tensor) {
    int64_t element = byteSize(storageType(getElementTypeOrSelf(tensor)));
    return double(count(tn::getDims(tensor)) * element);
  };
  double bytes = bytesOf(region.source.getResultTypes().front());
  for (unsigned buffer : {problem.x.buffer, problem.filter.buffer}) {
    bytes += bytesOf(region.source.getArgument(buffer).getType());
  }
  return {count(product.rowDims),
          count({product.columns}),
          problem.depth(),
          count(product.batch),
          bytes,
          byteSize(problem.element())};
}

namespace {

StagedTime estimate(const ConvProblem &problem, GemmSizes sizes, const GemmTile &tile,
                    const target::Target &gpu) {
  double coreFlops =
      isSimt(problem) ? gpu.peak * tuning::kSimtShare / double(gpu.cores) : mmaCoreFlops(gpu);
  double copies = double(tile.rows) / double(problem.patchWidth) +
                  double(tile.columns) / double(problem.filterWidth);
  sizes.copySeconds =
      std::max(tuning::kConvStageSeconds, copies * double(tile.depth) / tuning::kCopyRate);
  StagedTime time = estimateStaged(sizes, tile, coreFlops, gpu);
  if (problem.element().isInteger()) {
    for (double *part : {&time.fill, &time.steps, &time.out}) {
      *part *= tuning::kConvOfTwoBlocks;
    }
  }
  return time;
}

GemmTile chooseTile(RegionBuilder &region, const ConvProblem &problem) {
  GemmSizes sizes =
      convSizes(region, problem, [&](ArrayRef<AffineExpr> dims) { return region.estimate(dims); });
  GemmTile best;
  double least = std::numeric_limits<double>::max();
  for (const GemmTile &tile : convTiles(problem, region.gpu)) {
    double time = estimate(problem, sizes, tile, region.gpu).seconds();
    if (time < least) {
      least = time;
      best = tile;
    }
  }
  return best;
}

} // namespace

std::vector<GemmTile> convTiles(const ConvProblem &problem, const target::Target &gpu) {
  std::vector<GemmTile> tiles;
  int64_t depth = stageDepth(problem), columns = *tn::constantDim(problem.product.columns);
  for (int64_t rows : tuning::kConvRows) {
    for (int64_t width : tuning::kConvWidths) {
      bool isTooWide = width > tuning::kConvWidths[0] && width >= 2 * columns;
      bool isTooSmall = rows * width < 512;
      for (int64_t splits : tuning::kTileSplits) {
        GemmTile tile = isSimt(problem) ? simtTile(rows, width) : mmaTile(rows, width, depth);
        tile.splits = splits;
        if (!isTooWide && !isTooSmall && splits <= llvm::divideCeilSigned(problem.depth(), depth) &&
            fits(tile, byteSize(problem.element()), gpu)) {
          tiles.push_back(tile);
        }
      }
    }
  }
  return tiles;
}

bool emitConv(RegionBuilder &region, const ConvProblem &problem, const GemmTile &tile) {
  ConvProblem own = problem;
  if (!problem.filterSizes.empty()) {
    own.filter.buffer = layOutFilter(region, problem.computed, problem.filterSizes);
    own.product.b.at = own.filter;
  }
  return TiledGemmKernel(region, own.product, tile, std::make_unique<PatchLoader>(own, tile),
                         std::make_unique<FilterLoader>(own, tile))
      .emit();
}

namespace {

template <bool kIsHalf> StringRef nameOf() {
  return kIsHalf ? kConvTensorCore.name : kConvSimt.name;
}

template <bool kIsHalf> FamilyMatch matchFamily(RegionBuilder &region) {
  MatchResult<ConvProblem> problem = matchConv(region, kIsHalf);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  return FamilyMatch::take(
      *problem, dispatch::choiceOf(nameOf<kIsHalf>(), chooseTile(region, *problem)),
      kIsHalf ? "tensor cores multiply patches by the filter" : "FP32 arithmetic on patches");
}

template <bool kIsHalf>
std::vector<dispatch::KernelChoice> convConfigs(RegionBuilder &region, const ConvProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (const GemmTile &tile : convTiles(problem, region.gpu)) {
    choices.push_back(dispatch::choiceOf(nameOf<kIsHalf>(), tile));
  }
  return choices;
}

/// With the guess of sizes that vary by which the library's call is judged.
StagedTime estimateOf(RegionBuilder &region, const ConvProblem &problem,
                      const dispatch::KernelChoice &choice) {
  dispatch::CostModel costs(region.source->getParentOfType<ModuleOp>(), region.gpu);
  GemmSizes sizes =
      convSizes(region, problem, [&](ArrayRef<AffineExpr> dims) { return costs.countOf(dims); });
  return estimate(problem, sizes, configOf<GemmTile>(choice), region.gpu);
}

/// Of the kernel that lays out a filter which is no constant.
double filterSeconds(RegionBuilder &region, const ConvProblem &problem) {
  return problem.filterSizes.empty() ? 0 : region.gpu.launchSeconds;
}

double convSeconds(RegionBuilder &region, const ConvProblem &problem,
                   const dispatch::KernelChoice &choice) {
  return estimateOf(region, problem, choice).seconds() + filterSeconds(region, problem);
}

dispatch::TimeParts convParts(RegionBuilder &region, const ConvProblem &problem,
                              const dispatch::KernelChoice &choice) {
  dispatch::TimeParts time = estimateOf(region, problem, choice).parts(region.gpu);
  time.add("filter", filterSeconds(region, problem));
  return time;
}

std::optional<dispatch::WeightLayout> convWeights(RegionBuilder &region, const ConvProblem &) {
  return channelsLastWeight(region.source);
}

LogicalResult emitFamily(RegionBuilder &region, const ConvProblem &problem,
                         const dispatch::KernelChoice &choice) {
  return success(emitConv(region, problem, configOf<GemmTile>(choice)));
}

} // namespace

constexpr KernelFamily kConvTensorCore = {
    .name = "conv_tensorcore",
    .what =
        "implicit GEMM of a convolution by mma.sync: cp.async of patches, split-K over a cluster",
    .strategies = {dispatch::kContraction},
    .needs = {"conv"},
    .match = matchFamily<true>,
    .configs = on<convConfigs<true>>,
    .seconds = on<convSeconds>,
    .parts = on<convParts>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<convWeights>,
    .emit = on<emitFamily>};

constexpr KernelFamily kConvSimt = {.name = "conv_simt",
                                    .what = "implicit GEMM of a convolution by FP32 arithmetic",
                                    .strategies = {dispatch::kContraction},
                                    .needs = {"conv"},
                                    .match = matchFamily<false>,
                                    .configs = on<convConfigs<false>>,
                                    .seconds = on<convSeconds>,
                                    .parts = on<convParts>,
                                    .epilogueSeconds = epilogueSeconds,
                                    .weights = on<convWeights>,
                                    .emit = on<emitFamily>};

} // namespace tenon::codegen::cuda
