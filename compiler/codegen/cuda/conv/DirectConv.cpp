// Direct convolutions: which ones, the tiles, the estimate that chooses one, and the family. Relies
// on DirectKernel.cpp holding the whole filter of a block's channels.
#include "compiler/codegen/cuda/conv/DirectConv.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/conv/Tuning.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/NarrowIntegers.h"
#include "compiler/graph/Tn.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kOctetElements = 8;

int64_t oddOf(int64_t pitch) { return pitch | 1; }

int64_t resultChannels(const ConvProblem &problem) {
  int64_t channels = *tn::constantDim(problem.product.columns);
  for (AffineExpr others : problem.product.batch) {
    channels *= *tn::constantDim(others);
  }
  return channels;
}

/// The fewest groups whose channels, of the input and of the result, are whole octets; 0 for none.
int64_t joinedOctets(int64_t groups, int64_t channels, int64_t columns, int64_t) {
  auto least = [](int64_t count) { return kOctetElements / std::gcd(count, kOctetElements); };
  if (groups == 1 && channels == 4 && columns % kOctetElements == 0) {
    return 1; // which foldedPixels tells more of
  }
  int64_t joined = std::lcm(least(channels), least(columns));
  return groups % joined == 0 ? joined : 0;
}

/// Of few channels two neighbouring pixels are an octet, where a stride of 2 makes positions begin
/// on borders of octets.
int64_t foldedPixels(const ConvProblem &problem) {
  const ConvDim &columns = problem.dims[1];
  bool isFolded = problem.channels() == 4 && columns.stride == 2 && columns.dilation == 1;
  return isFolded ? 2 : 1;
}

/// Whether places of an image are numbers of 32 bits.
bool isSmallImage(RegionBuilder &region, const ConvProblem &problem) {
  constexpr int64_t most = int64_t(1) << 30;
  tn::SymbolList declared(region.source->getParentOfType<ModuleOp>());
  int64_t size = 1;
  for (AffineExpr dim : {problem.dims[0].in, problem.x.strides[1]}) {
    int64_t bound = std::max<int64_t>(declared.bounds(dim).max, 1);
    if (bound >= most || (size *= bound) >= most) {
      return false;
    }
  }
  return true;
}

/// The sizes of a dim's tiles: all of it, halves and so on.
SmallVector<int64_t> partsOf(AffineExpr dim) {
  std::optional<int64_t> size = tn::constantDim(dim);
  if (!size) {
    return {8, 16};
  }
  SmallVector<int64_t> parts;
  for (int64_t count = 1; count <= *size; ++count) {
    int64_t part = llvm::divideCeilSigned(*size, count);
    bool isNew = parts.empty() || parts.back() > part;
    if (isNew && part <= tuning::kDirectMostLine) {
      parts.push_back(part);
    }
  }
  return parts;
}

/// Of channels: what a warp has at a time, and what a block has.
SmallVector<std::pair<int64_t, int64_t>> widthsOf(const ConvProblem &problem) {
  int64_t unit = problem.joined * problem.groupColumns, all = resultChannels(problem);
  int64_t most = tuning::kDirectWarpWidth, ofWarp = std::min(unit, most);
  while (unit % ofWarp != 0) {
    ofWarp -= kMmaColumns;
  }
  SmallVector<std::pair<int64_t, int64_t>> widths;
  for (int64_t width = ofWarp; width <= tuning::kDirectMostWidth; width += ofWarp) {
    bool isWhole = width % unit == 0 || unit % width == 0;
    if (isWhole && all % width == 0) {
      widths.push_back({ofWarp, width});
    }
  }
  return widths;
}

/// Of a block.
int64_t registersOf(const DirectTile &tile) {
  int64_t sums = tile.warpTiles * tile.warpWidth / kMmaColumns * 4;
  return (sums * 3 / 2 + tuning::kDirectRegisters) * tile.threads();
}

int64_t blocksOfProcessor(const DirectLayout &layout, const DirectTile &tile,
                          const target::Target &gpu) {
  int64_t blocks = std::max<int64_t>(gpu.registers / registersOf(tile), 1);
  while (blocks > 1 && layout.bytes() > gpu.sharedOfBlock(blocks)) {
    --blocks;
  }
  return blocks;
}

/// Tiles of the pictures.
int64_t tilesOf(RegionBuilder &region, const ConvProblem &problem, const DirectTile &tile) {
  ArrayRef<AffineExpr> dims = problem.product.rowDims;
  return region.estimate(dims[0]) * llvm::divideCeilSigned(region.estimate(dims[1]), tile.rows) *
         llvm::divideCeilSigned(region.estimate(dims[2]), tile.columns);
}

} // namespace

DirectLayout::DirectLayout(const ConvProblem &problem, const DirectTile &tile) {
  const ConvDim &rows = problem.dims[0], &columns = problem.dims[1];
  folded = foldedPixels(problem);
  tapColumns = llvm::divideCeilSigned(columns.taps, folded);
  columnStride = columns.stride / folded;
  unitColumns = problem.joined * problem.groupColumns;
  unitOctets = problem.channels() * folded / kOctetElements;
  units = std::max<int64_t>(tile.width / unitColumns, 1);
  slabs = resultChannels(problem) / tile.width;
  inRows = (tile.rows - 1) * rows.stride + (rows.taps - 1) * rows.dilation + 1;
  inColumns = (tile.columns - 1) * columnStride + (tapColumns - 1) * columns.dilation + 1;
  phaseColumns = llvm::divideCeilSigned(inColumns, columnStride);
  linePixels = phaseColumns * columnStride;
  pixelPitch = oddOf(units * unitOctets);
  int64_t octets = rows.taps * tapColumns * unitOctets;
  int64_t products = tile.warpWidth / kMmaColumns;
  bool isLong = (octets + 1) / 2 * tile.warpTiles * products > tuning::kDirectProducts;
  segments = isLong ? rows.taps : 1;
  usedOctets = octets / segments;
  // A single product's lines are read for two steps.
  segmentOctets = llvm::alignTo(usedOctets, products % 2 == 0 ? 2 : 4);
  filterPitch = oddOf(segments * segmentOctets);
  inputOctets = inRows * linePixels * pixelPitch;
  filterOctets = tile.width * filterPitch;
}

int64_t DirectLayout::distance(const ConvProblem &problem, int64_t octet) const {
  const ConvDim &rows = problem.dims[0], &columns = problem.dims[1];
  int64_t tap = octet / unitOctets, row = segments == 1 ? tap / tapColumns : 0;
  int64_t column = tap % tapColumns * columns.dilation;
  int64_t pixel = row * rows.dilation * linePixels + column % columnStride * phaseColumns +
                  column / columnStride;
  return pixel * pixelPitch + octet % unitOctets;
}

std::vector<DirectTile> directTiles(RegionBuilder &region, const ConvProblem &problem) {
  std::vector<DirectTile> tiles;
  ArrayRef<AffineExpr> dims = problem.product.rowDims;
  for (auto [ofWarp, width] : widthsOf(problem)) {
    for (int64_t rows : partsOf(dims[1])) {
      for (int64_t columns : partsOf(dims[2])) {
        for (int64_t warpTiles : {1, 2, 4}) {
          for (int64_t warps : {4, 8}) {
            DirectTile tile{rows, columns, width, warpTiles, ofWarp, warps};
            bool isSmall = tile.positions() < tuning::kDirectLeastPositions &&
                           (rows < region.estimate(dims[1]) || columns < region.estimate(dims[2]));
            bool isLarge = tile.positions() > tuning::kDirectMostPositions;
            bool isIdle = tile.pieces() * tile.chunks() < warps && warps > 4;
            if (isSmall || isLarge || isIdle ||
                warpTiles * ofWarp / kMmaColumns > tuning::kDirectSums) {
              continue;
            }
            DirectLayout layout(problem, tile);
            if (layout.units * layout.unitOctets <= tile.threads() &&
                layout.bytes() + tuning::kBesideStages <= region.gpu.sharedBytes &&
                registersOf(tile) <= region.gpu.registers) {
              tiles.push_back(tile);
            }
          }
        }
      }
    }
  }
  return tiles;
}

int64_t directBlocks(RegionBuilder &region, const ConvProblem &problem, const DirectTile &tile) {
  DirectLayout layout(problem, tile);
  int64_t atOnce = region.gpu.cores * blocksOfProcessor(layout, tile, region.gpu);
  int64_t blocks = std::max<int64_t>(atOnce / layout.slabs, 1);
  for (AffineExpr dim : problem.product.rowDims) {
    if (!tn::constantDim(dim)) {
      return blocks;
    }
  }
  int64_t tiles = std::max<int64_t>(tilesOf(region, problem, tile), 1);
  return llvm::divideCeilSigned(tiles, llvm::divideCeilSigned(tiles, blocks));
}

MatchResult<ConvProblem> matchDirect(RegionBuilder &region) {
  MatchResult<ConvProblem> problem = matchConv(region, /*isHalf=*/true, joinedOctets);
  if (!problem) {
    return problem;
  }
  tn::ConvOp conv = *region.source.getOps<tn::ConvOp>().begin();
  bool isExact = !tn::isNarrowProduct(conv) || tn::isByteProduct(conv);
  if (problem->dims.size() != 2 || !isExact) {
    return MatchFailure{"it is not over two dims, or of integers that are multiplied as floats"};
  }
  if (conv.getGroups() == 1 && problem->groupChannels > tuning::kDirectDenseChannels) {
    return MatchFailure{"without groups, many channels are a product of large matrices"};
  }
  if (problem->patchWidth * foldedPixels(*problem) != kOctetElements) {
    return MatchFailure{"channels of the input do not lie on borders of 16 bytes"};
  }
  if (!isSmallImage(region, *problem) || directTiles(region, *problem).empty()) {
    return MatchFailure{"an image, or the filter of a few channels, is too large"};
  }
  return problem;
}

namespace {

/// Seconds of the parts of a direct convolution.
struct DirectTime {
  double filter = 0, tiles = 0, stream = 0;
  int64_t blocks = 0, atOnce = 0;
  const char *bound = "products";

  double seconds() const { return tuning::kDirectSeconds + filter + std::max(tiles, stream); }
};

/// What runs of so many bytes come to by sectors of 32.
double sectorBytes(double bytes, int64_t run) {
  double sectors = double(llvm::divideCeilSigned(run, 32)) + (run % 32 == 0 ? 0 : 0.5);
  return bytes * 32 * sectors / double(run);
}

/// A tile takes what its products, shared memory or the caches need, and instructions for copies
/// and results besides; a block alone waits for each step of its warps.
DirectTime timeOf(RegionBuilder &region, const ConvProblem &problem, const DirectTile &tile) {
  const target::Target &gpu = region.gpu;
  DirectLayout layout(problem, tile);
  double cores = double(gpu.cores), cacheOfCore = gpu.cacheBandwidth / cores;
  double items = double(tile.pieces() * tile.chunks());
  double rounds = std::ceil(items / double(tile.warps)), whole = rounds * double(tile.warps);
  double steps = double(layout.segments * layout.steps());
  double rowTiles = double(tile.warpTiles), products = double(tile.warpWidth / kMmaColumns);
  double octets = double(layout.inRows * layout.inColumns * layout.units * layout.unitOctets);
  double results = items * rowTiles * 16 * double(tile.warpWidth);

  double multiplied =
      whole * rowTiles * products * steps * 4096 * cores / (gpu.halfPeak * tuning::kDirectShare);
  double shared =
      (items * steps * (rowTiles + products / 2) * 512 + 16 * octets) / tuning::kDirectSharedRate;
  double loaded = (sectorBytes(16 * octets, 16 * layout.units * layout.unitOctets) +
                   sectorBytes(2 * results, 2 * tile.width)) *
                  tuning::kDirectLoadShare / cacheOfCore;
  double most = std::max({multiplied, shared, loaded});
  double busy = most + octets * double(layout.folded) * tuning::kDirectCopySeconds +
                whole * rowTiles * tuning::kDirectStoreSeconds;

  DirectTime time;
  time.bound = most == multiplied ? "products" : most == shared ? "shared" : "loads";
  int64_t ofProcessor = blocksOfProcessor(layout, tile, gpu);
  int64_t ofSlab = directBlocks(region, problem, tile);
  time.blocks = ofSlab * layout.slabs;
  time.atOnce = gpu.cores * ofProcessor;
  double waves = double(llvm::divideCeilSigned(time.blocks, time.atOnce));
  double turns =
      double(llvm::divideCeilSigned(std::max<int64_t>(tilesOf(region, problem, tile), 1), ofSlab));
  double together = std::min(double(ofProcessor), std::ceil(double(time.blocks) / cores));
  double waits = rounds * steps *
                 (tuning::kDirectStepSeconds + tuning::kDirectProductSeconds * rowTiles * products);
  time.tiles = waves * turns * std::max(busy * together, busy + waits);
  time.filter =
      waves * (tuning::kFillSeconds + double(16 * layout.filterOctets) * together / cacheOfCore);
  double bytes = 2 * double(region.estimate(
                         tn::getDims(region.source.getArgument(problem.x.buffer).getType()))) +
                 2 * double(region.estimate(problem.product.rows) * resultChannels(problem));
  time.stream = bytes / gpu.memoryBandwidth;
  return time;
}

FamilyMatch matchDirectFamily(RegionBuilder &region) {
  MatchResult<ConvProblem> problem = matchDirect(region);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  DirectTile best;
  double least = std::numeric_limits<double>::max();
  for (const DirectTile &tile : directTiles(region, *problem)) {
    double time = timeOf(region, *problem, tile).seconds();
    if (time < least) {
      least = time;
      best = tile;
    }
  }
  return FamilyMatch::take(*problem, dispatch::choiceOf(kConvDirect.name, best),
                           "windows are read where the input lies in shared memory");
}

std::vector<dispatch::KernelChoice> directConfigs(RegionBuilder &region,
                                                  const ConvProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (const DirectTile &tile : directTiles(region, problem)) {
    choices.push_back(dispatch::choiceOf(kConvDirect.name, tile));
  }
  return choices;
}

double directSeconds(RegionBuilder &region, const ConvProblem &problem,
                     const dispatch::KernelChoice &choice) {
  return timeOf(region, problem, configOf<DirectTile>(choice)).seconds();
}

dispatch::TimeParts directParts(RegionBuilder &region, const ConvProblem &problem,
                                const dispatch::KernelChoice &choice) {
  DirectTime time = timeOf(region, problem, configOf<DirectTile>(choice));
  dispatch::TimeParts parts;
  parts.blocks = time.blocks;
  parts.atOnce = time.atOnce;
  parts.add("start", tuning::kDirectSeconds);
  parts.add("filter", time.filter);
  bool isStream = time.stream > time.tiles;
  parts.add(isStream ? "memory" : time.bound, isStream ? time.stream : time.tiles);
  return parts;
}

std::optional<dispatch::WeightLayout> directWeights(RegionBuilder &region, const ConvProblem &) {
  return channelsLastWeight(region.source);
}

LogicalResult emitDirectFamily(RegionBuilder &region, const ConvProblem &problem,
                               const dispatch::KernelChoice &choice) {
  return success(emitDirect(region, problem, configOf<DirectTile>(choice)));
}

} // namespace

constexpr KernelFamily kConvDirect = {
    .name = "conv_direct",
    .what = "convolution by mma.sync of windows that lie in shared memory, with the filter beside "
            "them; groups of a few channels side by side",
    .strategies = {dispatch::kContraction},
    .needs = {"conv"},
    .match = matchDirectFamily,
    .configs = on<directConfigs>,
    .seconds = on<directSeconds>,
    .parts = on<directParts>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<directWeights>,
    .emit = on<emitDirectFamily>};

} // namespace tenon::codegen::cuda
