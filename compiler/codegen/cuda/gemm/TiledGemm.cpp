// The choice of a product's tile by an estimate of its time: the streams of a block and of all
// blocks, and what splitting the depth costs. Relies on the rates of the target.
#include "compiler/codegen/cuda/gemm/TiledGemm.h"

#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Tn.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// A problem whose accumulators are taken in f32.
bool fitsSimt(const GemmProblem &problem) {
  auto fits = [](Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() <= 32; };
  return fits(problem.a.at.element) && fits(problem.b.at.element);
}

GemmTile simtTileOf(int64_t rows) {
  GemmTile tile;
  tile.isSimt = true;
  tile.stages = 1;
  tile.rows = tile.columns = rows;
  tile.depth = tuning::kSimtDepth;
  tile.warpRows = tile.warpColumns = rows / 16;
  return tile;
}

GemmTile simtTile(const GemmSizes &sizes, const target::Target &gpu) {
  int64_t large = llvm::divideCeilSigned(sizes.rows, tuning::kSimtLarge) *
                  llvm::divideCeilSigned(sizes.columns, tuning::kSimtLarge) * sizes.batch;
  return simtTileOf(large >= gpu.cores ? tuning::kSimtLarge : tuning::kSimtSmall);
}

/// All tiles for tensor cores.
std::vector<GemmTile> tilesOf(const GemmSizes &sizes, const target::Target &gpu) {
  std::vector<GemmTile> tiles;
  for (int64_t rows : tuning::kTileRows) {
    for (int64_t columns : tuning::kTileWidths) {
      for (int64_t splits : tuning::kTileSplits) {
        GemmTile tile = mmaTile(rows, columns, GemmTile().depth);
        tile.splits = splits;
        int64_t bytes = tile.stages * (tile.rows + tile.columns) * (tile.depth + 8) * 2;
        if (splits <= gpu.clusterBlocks &&
            splits <= llvm::divideCeilSigned(sizes.depth, tile.depth) &&
            bytes + tuning::kBesideStages <= gpu.sharedBytes) {
          tiles.push_back(tile);
        }
      }
    }
  }
  return tiles;
}

} // namespace

GemmSizes sizesOf(RegionBuilder &region, const GemmProblem &problem) {
  GemmSizes sizes{region.estimate(problem.rows), region.estimate(problem.columns),
                  region.estimate(problem.depth), region.estimate(problem.batch), 0};
  sizes.memoryBytes =
      2.0 * double(sizes.batch) *
      double((sizes.rows + sizes.columns) * sizes.depth + sizes.rows * sizes.columns);
  return sizes;
}

GemmTile mmaTile(int64_t rows, int64_t columns, int64_t depth) {
  GemmTile tile;
  tile.rows = rows;
  tile.columns = columns;
  tile.depth = depth;
  int64_t warps = rows * columns >= tuning::kManyWarpsTile ? 8 : 4;
  tile.warpRows = std::min<int64_t>(rows, rows * columns >= tuning::kLargeWarpTile ? 64 : 32);
  tile.warpColumns = rows * columns / warps / tile.warpRows;
  if (tile.warpColumns < 16) {
    tile.warpRows = 16;
    tile.warpColumns = std::max<int64_t>(16, rows * columns / warps / 16);
  }
  int64_t stageBytes = (rows + columns) * tile.depth * 2;
  tile.stages = std::clamp(tuning::kRingBytes / stageBytes, tuning::kMinStages, tuning::kMaxStages);
  return tile;
}

double mmaCoreFlops(const target::Target &gpu) {
  return gpu.halfPeak * tuning::kMmaShare / double(gpu.cores);
}

StagedTime estimateStaged(const GemmSizes &sizes, const GemmTile &tile, double coreFlops,
                          const target::Target &gpu) {
  double ofTile = double(tile.rows * tile.columns);
  int64_t tiles = llvm::divideCeilSigned(sizes.rows, tile.rows) *
                  llvm::divideCeilSigned(sizes.columns, tile.columns) * sizes.batch;
  StagedTime time;
  time.blocks = double(tiles * tile.splits);
  time.waves = std::ceil(time.blocks / double(gpu.cores));
  time.stepsOfBlock =
      double(llvm::divideCeilSigned(llvm::divideCeilSigned(sizes.depth, tile.depth), tile.splits));
  double stageBytes = double(sizes.elementBytes) * double((tile.rows + tile.columns) * tile.depth);
  auto [ofStep, step] =
      std::max({std::pair(tuning::kStageSeconds, "waits"), std::pair(sizes.copySeconds, "copies"),
                std::pair(stageBytes * double(gpu.cores) / gpu.cacheBandwidth, "loads"),
                std::pair(2 * ofTile * double(tile.depth) / coreFlops, "products")},
               [](const auto &a, const auto &b) { return a.first < b.first; });
  time.step = step;
  time.fill = time.waves * tuning::kFillSeconds;
  time.steps = time.waves * time.stepsOfBlock * ofStep;
  time.out = time.waves * ofTile / tuning::kTileOutRate;
  double cache = time.blocks * time.stepsOfBlock * stageBytes / gpu.cacheBandwidth;
  double memory = sizes.memoryBytes / gpu.memoryBandwidth;
  time.stream = std::max(cache, memory);
  time.read = cache > memory ? "cache" : "memory";
  time.reduction = tile.splits == 1
                       ? 0
                       : tuning::kClusterSeconds + tuning::kSplitSeconds * double(tile.splits) +
                             2 * ofTile / tuning::kTileOutRate;
  return time;
}

double StagedTime::seconds() const {
  return tuning::kStartSeconds + std::max(fill + steps + out, stream) + reduction;
}

dispatch::TimeParts StagedTime::parts(const target::Target &gpu) const {
  dispatch::TimeParts time;
  time.blocks = int64_t(blocks);
  time.atOnce = gpu.cores;
  time.steps = int64_t(stepsOfBlock);
  time.add("start", tuning::kStartSeconds);
  if (fill + steps + out < stream) {
    time.add(read, stream);
  } else {
    double idle = idleSeconds(1, blocks, waves, double(gpu.cores)), busy = 1 - idle;
    time.add("fill", busy * fill);
    time.add(step, busy * steps);
    time.add("out", busy * out);
    time.add("idle", idle * (fill + steps + out));
  }
  time.add("split", reduction);
  return time;
}

bool fitsTensorCores(const GemmProblem &problem) {
  Type element = problem.a.at.element;
  // Of bytes two are one.
  bool isMultiplied = element.isF16() || element.isBF16() || element.isInteger(16);
  return isMultiplied && problem.b.at.element == element;
}

StagedTime estimateMma(const GemmProblem &problem, GemmSizes sizes, const GemmTile &tile,
                       const target::Target &gpu) {
  int64_t ofA = copyWidth(problem, /*isA=*/true), ofB = copyWidth(problem, /*isA=*/false);
  // Copies of 16 bytes are part of what a stage takes at least.
  double copies = (ofA < 8 ? double(tile.rows) / double(ofA) : 0) +
                  (ofB < 8 ? double(tile.columns) / double(ofB) : 0);
  sizes.copySeconds = copies * double(tile.depth) / tuning::kCopyRate;
  bool isLarge = tile.rows * tile.columns >= tuning::kLargeWarpTile;
  double share = isLarge ? tuning::kLargeWarpShare / tuning::kMmaShare : 1;
  return estimateStaged(sizes, tile, mmaCoreFlops(gpu) * share, gpu);
}

GemmTile chooseTile(RegionBuilder &region, const GemmProblem &problem) {
  GemmSizes sizes = sizesOf(region, problem);
  if (!fitsTensorCores(problem)) {
    return simtTile(sizes, region.gpu);
  }
  GemmTile best;
  double least = std::numeric_limits<double>::max();
  for (const GemmTile &tile : tilesOf(sizes, region.gpu)) {
    double time = estimateMma(problem, sizes, tile, region.gpu).seconds();
    if (time < least) {
      least = time;
      best = tile;
    }
  }
  return best;
}

bool emitProduct(RegionBuilder &region, const GemmProblem &problem, const GemmTile &tile) {
  return TiledGemmKernel(region, problem, tile).emit();
}

namespace {

/// Lets the weights lie as [columns, depth] where that makes copies of them wider and they may be
/// laid out so; false if nothing changes.
bool layOutWeights(RegionBuilder &region, GemmProblem &problem) {
  tn::MatmulOp op = *region.source.getOps<tn::MatmulOp>().begin();
  std::optional<int64_t> depth = tn::constantDim(problem.depth);
  if (!fitsTensorCores(problem) || !packableInput(op.getB()) || !depth || *depth == 0) {
    return false;
  }
  GemmProblem moved = problem;
  tn::Dims &strides = moved.b.at.strides;
  strides[strides.size() - 2] = getAffineConstantExpr(1, region.source.getContext());
  strides[strides.size() - 1] = problem.depth;
  if (copyWidth(moved, /*isA=*/false) <= copyWidth(problem, /*isA=*/false)) {
    return false;
  }
  problem = moved;
  return true;
}

/// The problem of a region that one of the two families takes.
MatchResult<GemmProblem> matchGenerated(RegionBuilder &region, bool isSimt) {
  MatchResult<GemmProblem> problem = matchGemm(region.source);
  if (!problem) {
    return problem;
  }
  layOutWeights(region, *problem);
  if (!(fitsSimt(*problem) || fitsTensorCores(*problem)) || !productTensors(region)) {
    return MatchFailure{"the operands are not floats of up to 32 bits"};
  }
  if (isSimt == fitsTensorCores(*problem)) {
    return isSimt ? MatchFailure{"tensor cores do it"}
                  : MatchFailure{"the operands are not both f16 or both bf16"};
  }
  return problem;
}

FamilyMatch matchTensorCore(RegionBuilder &region) {
  MatchResult<GemmProblem> problem = matchGenerated(region, /*isSimt=*/false);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  return FamilyMatch::take(*problem,
                           dispatch::choiceOf(kGemmTensorCore.name, chooseTile(region, *problem)),
                           "tensor cores read both operands by strides");
}

std::vector<dispatch::KernelChoice> tensorCoreConfigs(RegionBuilder &region,
                                                      const GemmProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (const GemmTile &tile : tilesOf(sizesOf(region, problem), region.gpu)) {
    choices.push_back(dispatch::choiceOf(kGemmTensorCore.name, tile));
  }
  return choices;
}

double tensorCoreSeconds(RegionBuilder &region, const GemmProblem &problem,
                         const dispatch::KernelChoice &choice) {
  return estimateMma(problem, sizesOf(region, problem), configOf<GemmTile>(choice), region.gpu)
      .seconds();
}

dispatch::TimeParts tensorCoreParts(RegionBuilder &region, const GemmProblem &problem,
                                    const dispatch::KernelChoice &choice) {
  return estimateMma(problem, sizesOf(region, problem), configOf<GemmTile>(choice), region.gpu)
      .parts(region.gpu);
}

std::optional<dispatch::WeightLayout> tensorCoreWeights(RegionBuilder &region,
                                                        const GemmProblem &) {
  MatchResult<GemmProblem> problem = matchGemm(region.source);
  bool isLaidOut = problem && layOutWeights(region, *problem);
  return isLaidOut ? layoutInDepthPanels(region, *tn::constantDim(problem->depth)) : std::nullopt;
}

FamilyMatch matchSimt(RegionBuilder &region) {
  MatchResult<GemmProblem> problem = matchGenerated(region, /*isSimt=*/true);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  return FamilyMatch::take(*problem,
                           dispatch::choiceOf(kGemmSimt.name, chooseTile(region, *problem)),
                           "FP32 arithmetic for operands of any strides");
}

std::vector<dispatch::KernelChoice> simtConfigs(RegionBuilder &, const GemmProblem &) {
  return {dispatch::choiceOf(kGemmSimt.name, simtTileOf(tuning::kSimtSmall)),
          dispatch::choiceOf(kGemmSimt.name, simtTileOf(tuning::kSimtLarge))};
}

GemmTile simtTileOf(const dispatch::KernelChoice &choice) {
  GemmTile tile;
  tile.isSimt = true;
  return configOf(choice, tile);
}

/// Waves of blocks at what FP32 code reaches, each with its tile whole.
dispatch::TimeParts simtParts(RegionBuilder &region, const GemmProblem &problem,
                              const dispatch::KernelChoice &choice) {
  GemmTile tile = simtTileOf(choice);
  GemmSizes sizes = sizesOf(region, problem);
  int64_t steps = llvm::divideCeilSigned(sizes.depth, tile.depth);
  double blocks = double(llvm::divideCeilSigned(sizes.rows, tile.rows) *
                         llvm::divideCeilSigned(sizes.columns, tile.columns) * sizes.batch);
  double ofBlock = 2.0 * double(tile.rows * tile.columns * steps * tile.depth);
  double cores = double(region.gpu.cores), waves = std::ceil(blocks / cores);
  double products = waves * ofBlock / (region.gpu.peak * tuning::kSimtShare / cores);
  double memory = 4.0 * double(sizes.batch * (sizes.rows + sizes.columns) * sizes.depth) /
                  region.gpu.memoryBandwidth;
  dispatch::TimeParts time{{}, int64_t(blocks), region.gpu.cores, steps};
  time.add("start", tuning::kSimtSeconds);
  double idle = idleSeconds(products, blocks, waves, cores);
  time.add(memory > products ? "memory" : "products",
           std::max(memory, products) - (memory > products ? 0 : idle));
  time.add("idle", memory > products ? 0 : idle);
  return time;
}

double simtSeconds(RegionBuilder &region, const GemmProblem &problem,
                   const dispatch::KernelChoice &choice) {
  return simtParts(region, problem, choice).microseconds() * 1e-6;
}

LogicalResult emitTensorCore(RegionBuilder &region, const GemmProblem &problem,
                             const dispatch::KernelChoice &choice) {
  return success(emitProduct(region, problem, configOf<GemmTile>(choice)));
}

/// By mma.sync in steps of 16, in as many slices as blocks share the depth, which are added up in
/// their order. Rows and columns of a tile do not matter.
std::string tensorCoreOrder(RegionBuilder &, const GemmProblem &,
                            const dispatch::KernelChoice &choice) {
  GemmTile tile = configOf<GemmTile>(choice);
  return (llvm::Twine("mma.sync over stages of ") + llvm::Twine(tile.depth) + ", " +
          llvm::Twine(tile.splits) + (tile.splits == 1 ? " slice" : " slices"))
      .str();
}

std::string simtOrder(RegionBuilder &, const GemmProblem &, const dispatch::KernelChoice &) {
  return "one chain over the depth";
}

LogicalResult emitSimt(RegionBuilder &region, const GemmProblem &problem,
                       const dispatch::KernelChoice &choice) {
  return success(emitProduct(region, problem, simtTileOf(choice)));
}

} // namespace

constexpr KernelFamily kGemmTensorCore = {
    .name = "gemm_tensorcore",
    .what = "tiled GEMM by mma.sync: a multistage pipeline of cp.async, split-K over a cluster",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchTensorCore,
    .configs = on<tensorCoreConfigs>,
    .seconds = on<tensorCoreSeconds>,
    .parts = on<tensorCoreParts>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<tensorCoreWeights>,
    .emit = on<emitTensorCore>,
    .order = on<tensorCoreOrder>};

constexpr KernelFamily kGemmSimt = {.name = "gemm_simt",
                                    .what = "tiled GEMM by FP32 arithmetic",
                                    .strategies = {dispatch::kContraction},
                                    .needs = {"matmul"},
                                    .match = matchSimt,
                                    .configs = on<simtConfigs>,
                                    .seconds = on<simtSeconds>,
                                    .parts = on<simtParts>,
                                    .epilogueSeconds = epilogueSeconds,
                                    .emit = on<emitSimt>,
                                    .order = on<simtOrder>};

} // namespace tenon::codegen::cuda
