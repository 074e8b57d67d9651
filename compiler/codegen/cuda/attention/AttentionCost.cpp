// Waves of blocks on the multiprocessors; each goes through its keys tile by tile, and a tile takes
// what its products or its loads take and a time of its own for softmax and barriers.
#include "compiler/codegen/cuda/attention/AttentionCost.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"

#include <cmath>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kGuessedSize = 128;

double sizeOf(AffineExpr dim) {
  return static_cast<double>(tn::constantDim(dim).value_or(kGuessedSize));
}

struct Sizes {
  explicit Sizes(const AttentionProblem &p)
      : lists(static_cast<double>(p.typicalBatches) * sizeOf(p.heads)),
        keyLists(static_cast<double>(p.typicalBatches) * sizeOf(p.keyHeads)),
        queries(sizeOf(p.queries)), keys(sizeOf(p.keys)), width(sizeOf(p.width)),
        valueWidth(sizeOf(p.valueWidth)), bytes(p.q.element.getIntOrFloatBitWidth() / 8.0),
        keysRead(keys) {
    if (p.causal) {
      // The queries are the last ones of the keys.
      keys = std::max(keys - std::min(queries, keys) / 2, 1.0);
    }
    if (p.window > 0) {
      double window = static_cast<double>(p.window);
      keysRead = std::min(keysRead, window + queries);
      keys = std::min(keys, window);
    }
  }

  /// Of one head's keys and values.
  double keyBytes() const { return keysRead * (width + valueWidth) * bytes; }
  double memoryBytes() const {
    return keyLists * keyBytes() + lists * queries * (width + valueWidth) * bytes;
  }
  double lists, keyLists, queries;
  double keys; ///< that a query sees, on average
  double width, valueWidth, bytes;
  double keysRead; ///< that any query sees
};

/// Of warpgroups: what a multiprocessor does of all their tiles, or one block's tiles one after the
/// other where there are few. Keys and values that the caches do not hold come besides.
dispatch::TimeParts timeOfGroups(const Sizes &s, double blocks, const AttentionTile &tile,
                                 double atOnce, const target::Target &gpu) {
  double rows = static_cast<double>(tile.rows()), tileKeys = static_cast<double>(tile.keys);
  // A tile on the diagonal is done as a whole.
  double seen = std::min(s.keysRead, s.keys == s.keysRead ? s.keys : s.keys + rows / 2);
  double tiles = std::ceil(seen / tileKeys), most = std::ceil(s.keysRead / tileKeys);
  double units = blocks * rows / kGroupRows / static_cast<double>(gpu.cores) * tiles;
  double ofUnit = 2 * kGroupRows * tileKeys * (s.width + s.valueWidth) *
                  static_cast<double>(gpu.cores) / (gpu.halfPeak * tuning::kWarpgroupShare);
  double softmax = units * tuning::kGroupTileSeconds * tileKeys / kGroupRows;
  double products = units * ofUnit;
  dispatch::TimeParts time{
      {}, static_cast<int64_t>(blocks), static_cast<int64_t>(atOnce), static_cast<int64_t>(tiles)};
  time.add("start", tuning::kGroupSeconds);
  time.add("softmax", softmax);
  time.add("products", products);
  if (s.memoryBytes() > static_cast<double>(gpu.cacheBytes * gpu.cores) / 2) {
    time.add("memory", s.memoryBytes() / gpu.memoryBandwidth);
  }
  time.add("idle", std::max(0.0, most * tuning::kLoneTileSeconds - softmax - products));
  return time;
}

/// `blocks` that do `rows` queries against `keys` each, in tiles of `tileKeys`.
dispatch::TimeParts timeOf(const Sizes &s, double blocks, double rows, double keys, double tileKeys,
                           double flops, double together, const target::Target &gpu) {
  double atOnce = static_cast<double>(gpu.cores) * together;
  double waves = std::ceil(blocks / atOnce);
  double tiles = std::ceil(keys / tileKeys);
  double work = 2 * rows * tileKeys * (s.width + s.valueWidth) * gpu.cores / flops * together;
  double loads = tileKeys * (s.width + s.valueWidth) * s.bytes / gpu.coreBandwidth * together;
  double softmax = waves * tiles * tuning::kTileSeconds;
  double steps = waves * tiles * std::max(work, loads);
  double memory = s.memoryBytes() / gpu.memoryBandwidth;
  dispatch::TimeParts time{
      {}, static_cast<int64_t>(blocks), static_cast<int64_t>(atOnce), static_cast<int64_t>(tiles)};
  time.add("start", tuning::kAttentionSeconds);
  if (memory > softmax + steps) {
    time.add("memory", memory);
    return time;
  }
  double idle = idleSeconds(1, blocks, waves, atOnce), busy = 1 - idle;
  time.add("softmax", busy * softmax);
  time.add(work > loads ? "products" : "loads", busy * steps);
  time.add("idle", idle * (softmax + steps));
  return time;
}

} // namespace

dispatch::TimeParts timeOf(const AttentionProblem &problem, const AttentionTile &tile,
                           const target::Target &gpu) {
  Sizes s(problem);
  double rowsOfList = tile.joinsHeads ? s.queries * s.lists / s.keyLists : s.queries;
  double lists = tile.joinsHeads ? s.keyLists : s.lists;
  double rows = static_cast<double>(tile.rows());
  double blocks = lists * std::ceil(rowsOfList / rows) * tile.splits;
  if (tile.isWarpgroup) {
    double atOnce = static_cast<double>(gpu.cores * blocksAtOnce(problem, tile, gpu));
    return timeOfGroups(s, blocks, tile, atOnce, gpu);
  }
  dispatch::TimeParts time =
      timeOf(s, blocks, rows, std::ceil(s.keys / tile.splits), static_cast<double>(tile.keys),
             gpu.halfPeak * tuning::kMmaShare, 1, gpu);
  time.add("split", tile.splits == 1   ? 0
                    : tile.isClustered ? tuning::kSplitSeconds
                                       : tuning::kCombineSeconds);
  return time;
}

dispatch::TimeParts timeOf(const AttentionProblem &problem, const StreamLayout &layout,
                           const target::Target &gpu) {
  Sizes s(problem);
  double heads = std::ceil(static_cast<double>(layout.heads) / layout.blocks) * layout.blocks;
  return timeOf(s, heads, std::ceil(s.queries / kGroupRows) * kGroupRows, s.keys,
                static_cast<double>(layout.tileKeys), gpu.halfPeak * tuning::kWarpgroupShare, 1,
                gpu);
}

dispatch::TimeParts timeOf(const AttentionProblem &problem, const SimtTile &tile,
                           const target::Target &gpu) {
  Sizes s(problem);
  double rows = static_cast<double>(tile.rows);
  return timeOf(s, s.lists * std::ceil(s.queries / rows), rows, s.keys,
                static_cast<double>(tile.keys), gpu.peak * tuning::kSimtShare, 1, gpu);
}

} // namespace tenon::codegen::cuda
