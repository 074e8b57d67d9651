// Relies on the ring of stages taking most of a block's shared memory.
#include "compiler/codegen/cuda/gemm/WarpgroupTiles.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"

#include <algorithm>

using namespace mlir;

namespace tenon::codegen::cuda {

int64_t warpgroupBlocks(const GemmTile &tile) {
  constexpr int64_t kRegisters = 65536; // of a multiprocessor, on every GPU that has warpgroups
  int64_t ofThread = tile.warpRows * tile.warpColumns / kWarp + tuning::kWarpgroupRegisters;
  return std::max<int64_t>(kRegisters / (tile.threads() * ofThread), 1);
}

GemmTile warpgroupTile(int64_t rows, int64_t columns, const target::Target &gpu) {
  GemmTile tile;
  tile.isWarpgroup = true;
  tile.rows = rows;
  tile.columns = columns;
  tile.depth = kTileColumns;
  tile.warpRows = kGroupRows / kWarpsOfGroup;
  tile.warpColumns = columns;
  int64_t stageBytes = (rows + columns) * tile.depth * 2;
  int64_t ofRing = gpu.sharedOfBlock(warpgroupBlocks(tile)) - tuning::kBesideStages;
  tile.stages = std::clamp(ofRing / stageBytes, tuning::kMinStages, tuning::kWarpgroupStages);
  return tile;
}

GemmTile warpgroupTileOf(const dispatch::KernelChoice &choice) {
  GemmTile tile;
  tile.isWarpgroup = true;
  return configOf(choice, tile);
}

static int64_t ringBytes(const GemmTile &tile) {
  return tile.stages * (tile.rows + tile.columns) * tile.depth * 2;
}

std::vector<GemmTile> warpgroupTiles(int64_t columns, const target::Target &gpu) {
  std::vector<GemmTile> tiles;
  for (int64_t rows : tuning::kWarpgroupRows) {
    for (int64_t width : tuning::kWarpgroupWidths) {
      GemmTile tile = warpgroupTile(rows, width, gpu);
      bool isTooWide = width > tuning::kWarpgroupWidths[0] && width >= 2 * columns;
      if (!isTooWide && ringBytes(tile) + tuning::kBesideStages <= gpu.sharedBytes) {
        tiles.push_back(tile);
      }
    }
  }
  return tiles;
}

dispatch::TimeParts estimateWarpgroup(const GemmSizes &sizes, const GemmTile &tile,
                                      const target::Target &gpu) {
  double cores = double(gpu.cores), atOnce = cores * double(warpgroupBlocks(tile));
  int64_t steps = llvm::divideCeilSigned(sizes.depth, tile.depth);
  double tiles = double(llvm::divideCeilSigned(sizes.rows, tile.rows) *
                        llvm::divideCeilSigned(sizes.columns, tile.columns) * sizes.batch);
  double waves = std::ceil(tiles / atOnce), ofWave = waves * atOnce / cores;
  double ofTile = double(tile.rows * tile.columns);
  double share = tile.columns > tuning::kWarpgroupWidths[0] ? tuning::kWarpgroupShare
                                                            : tuning::kWarpgroupNarrowShare;
  double products =
      ofWave * double(steps) * 2 * ofTile * double(tile.depth) / (gpu.halfPeak * share / cores);
  double loads = ofWave * double(steps) * double(ringBytes(tile) / tile.stages) * cores /
                 (gpu.cacheBandwidth * tuning::kWarpgroupCache);
  double out = ofWave * ofTile / tuning::kWarpgroupOutRate;
  double memory = sizes.memoryBytes / (gpu.memoryBandwidth * tuning::kWarpgroupMemory);
  double busy = std::max(products, loads);
  // With one block, nothing is multiplied while its sums go out.
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

GemmTile chooseWarpgroupTile(const GemmSizes &sizes, const target::Target &gpu) {
  std::vector<GemmTile> tiles = warpgroupTiles(sizes.columns, gpu);
  return *std::min_element(tiles.begin(), tiles.end(), [&](const GemmTile &a, const GemmTile &b) {
    return estimateWarpgroup(sizes, a, gpu).microseconds() <
           estimateWarpgroup(sizes, b, gpu).microseconds();
  });
}

} // namespace tenon::codegen::cuda
