// By which tiles tensor cores do a problem of attention: what was the fastest of those measured,
// and all that it can be compiled with. Relies on AttentionFlash.h for what a tile has in shared
// memory.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Blocks that share the keys of a list of queries: as many as keep the GPU busy, if each has keys.
int64_t chooseSplits(int64_t lists, int64_t tiles, int64_t wanted, const target::Target &gpu) {
  int64_t most =
      std::min(tiles, gpu.hasClusters() ? std::min(tuning::kFlashClusterBlocks, gpu.clusterBlocks)
                                        : tuning::kMaxSplits);
  int64_t splits = 1;
  while (splits * 2 <= most && lists * splits * 2 <= wanted) {
    splits *= 2;
  }
  return splits;
}

/// Of a step of decoding, which reads all keys for a row or a few: what counts is how many bytes
/// are under way, and how few threads meet at the end (Tuning.h). On an H200, with 1,000 of 2,048
/// keys seen, 8 lists take 3.6 us, 4.3 by a second kernel; 128 lists 11.3, 16 with 4 splits, 12.0
/// with one, 23 when all keys are read. Asking for keys before the kernel before has ended gains
/// nothing.
void shareKeys(AttentionTile &tile, int64_t lists, int64_t keys, const target::Target &gpu) {
  tile.splits = chooseSplits(lists, (keys + tuning::kDecodeKeys - 1) / tuning::kDecodeKeys,
                             gpu.cores * tuning::kDecodeBlocks, gpu);
  bool isLong = keys / tile.splits >= tuning::kLongKeys;
  tile.keyWarps = tuning::kDecodeWarps;
  tile.keys = isLong ? tuning::kLongDecodeKeys : tuning::kDecodeKeys;
  tile.stages = isLong ? tuning::kLongDecodeStages : tuning::kDecodeStages;
}

int64_t widestOf(const AttentionProblem &p) {
  return std::max(*tn::constantDim(p.width), *tn::constantDim(p.valueWidth));
}

bool hasMaskRows(const AttentionProblem &p) {
  return p.mask && tn::constantDim(p.mask->strides[2]) != 0;
}

/// Registers that a thread of a warpgroup needs: accumulators, scores, probabilities as words, and
/// what else lives through the loop.
int64_t groupRegisters(const AttentionProblem &p, const AttentionTile &tile) {
  int64_t columns = llvm::alignTo(*tn::constantDim(p.valueWidth), kMmaDepth);
  int64_t ofMask = tile.overlaps && hasMaskRows(p) ? tuning::kOverlappedMaskRegisters : 0;
  return columns / 2 + tile.keys / 2 + tile.keys / 4 + tuning::kGroupRegisters + ofMask;
}

/// Whether the keys and values of all lists stay in the second-level cache while blocks go from one
/// list to the other.
bool fitCache(const AttentionProblem &p, const target::Target &gpu) {
  std::optional<int64_t> keyHeads = tn::constantDim(p.keyHeads), keys = tn::constantDim(p.keys);
  int64_t columns = *tn::constantDim(p.width) + *tn::constantDim(p.valueWidth);
  return keyHeads && keys &&
         p.typicalBatches * *keyHeads * *keys * columns * 2 <= gpu.cacheBytes * gpu.cores / 2;
}

/// Two warpgroups that share each tile of keys, half of which then come from the second-level cache
/// for as many products; with as many tiles in shared memory as two blocks have room for.
AttentionTile pairTile(const AttentionProblem &p, AttentionTile tile, const target::Target &gpu) {
  tile.rowWarps = 2 * kWarpsOfGroup;
  // Where products overlap, registers for more columns are not those of two blocks.
  tile.overlaps = !hasMaskRows(p) && widestOf(p) <= tuning::kPairOverlapColumns;
  int64_t fewest = tile.overlaps ? 3 : 2;
  tile.stages = fewest + 1;
  while (tile.stages > fewest && FlashShape(p, tile).sharedBytes() * 2 > gpu.sharedOfProcessor) {
    --tile.stages;
  }
  return tile;
}

/// Of what AttentionStream.h does not do: other widths than 64, causal ones, masks with rows, few
/// heads, sizes that vary. Nothing if shared memory does not hold it.
std::optional<AttentionTile> groupTile(const AttentionProblem &p, AttentionTile tile, int64_t lists,
                                       int64_t queries, int64_t keys, const target::Target &gpu) {
  tile.isWarpgroup = true;
  int64_t widest = widestOf(p);
  AttentionTile pair = pairTile(p, tile, gpu);
  int64_t pairs = lists * llvm::divideCeilSigned(queries, pair.rows()), atOnce = 2 * gpu.cores;
  bool fitsPair = widest <= tuning::kPairColumns &&
                  FlashShape(p, pair).sharedBytes() * 2 <= gpu.sharedOfProcessor;
  bool areShort = widest > tuning::kTinyHead && widest <= tuning::kNarrowHead &&
                  keys < tuning::kSharedGroupKeys;
  if (fitsPair && !areShort && pairs * 100 >= atOnce * tuning::kPairBusy) {
    return pair;
  }
  AttentionTile overlapped = tile;
  overlapped.overlaps = true;
  overlapped.stages = 3;
  // With a tile more in shared memory, there must be no fewer blocks.
  if (widest > tuning::kPairColumns && FlashShape(p, overlapped).sharedBytes() <= gpu.sharedBytes &&
      blocksAtOnce(p, overlapped, gpu) >= blocksAtOnce(p, tile, gpu)) {
    return overlapped;
  }
  return FlashShape(p, tile).sharedBytes() <= gpu.sharedBytes ? std::optional(tile) : std::nullopt;
}

/// What was the fastest, wherever it fits.
AttentionTile fastestTile(const AttentionProblem &p, const target::Target &gpu) {
  std::optional<int64_t> heads = tn::constantDim(p.heads), keyHeads = tn::constantDim(p.keyHeads),
                         queries = tn::constantDim(p.queries);
  int64_t batches = p.typicalBatches;
  bool isNarrow = widestOf(p) <= tuning::kNarrowHead;
  bool maskHasRows = hasMaskRows(p);
  AttentionTile tile;
  if (!heads || !queries) {
    return tile;
  }
  int64_t lists = batches * *heads, keys = tn::constantDim(p.keys).value_or(1024);
  auto blocks = [&](int64_t rows) { return lists * ((*queries + rows - 1) / rows); };
  // A step of decoding has a row or a few, so larger tiles would be empty however many there are.
  bool isDecoding = *queries <= tuning::kDecodeQueries;
  tile.isHeaviestFirst = p.causal && fitCache(p, gpu);
  if (!isDecoding && gpu.has(target::Feature::WarpgroupMma) &&
      blocks(kGroupRows) * tuning::kGroupsOfCores >= gpu.cores) {
    if (std::optional<AttentionTile> groups = groupTile(p, tile, lists, *queries, keys, gpu)) {
      return *groups;
    }
  }
  if (!isDecoding && blocks(128) >= 2 * gpu.cores && !maskHasRows) {
    // Two row tiles a warp halve the reads of shared memory; wide heads have no registers for them.
    tile.rowTiles = isNarrow ? 2 : 1;
    tile.rowWarps = isNarrow ? 4 : 8;
    return tile;
  }
  if (!isDecoding && blocks(64) >= gpu.cores) {
    return tile;
  }
  tile.keyWarps = !isDecoding && blocks(32) >= gpu.cores ? 2 : 4;
  tile.rowWarps = 4 / tile.keyWarps;
  tile.keys = isNarrow ? 128 : 64;
  if (isDecoding) {
    tile.joinsHeads =
        keyHeads && *heads != *keyHeads && *heads / *keyHeads * *queries <= tuning::kDecodeQueries;
    shareKeys(tile, tile.joinsHeads ? batches * *keyHeads : lists, keys, gpu);
    tile.endsAtMask = sharesMask(p, tile.joinsHeads) && keys > tile.keys;
  } else {
    tile.splits =
        chooseSplits(blocks(tile.rows()), (keys + tile.keys - 1) / tile.keys, gpu.cores, gpu);
  }
  tile.isClustered = tile.splits > 1 && gpu.hasClusters();
  return tile;
}

/// Of wide heads: fewer keys a tile, and no partial results of parts of columns.
void fitColumns(const AttentionProblem &p, AttentionTile &tile) {
  if (widestOf(p) <= tuning::kPartColumns || tile.isWarpgroup) {
    return;
  }
  tile.keys = std::min(tile.keys, tuning::kWideHeadKeys * tile.keyWarps);
  if (!tile.isClustered && FlashShape(p, tile).columnParts() > 1) {
    tile.splits = 1;
  }
}

/// Narrows a tile until its block fits the target's shared memory: fewer tiles under way, fewer
/// keys, then fewer warps that share rows.
void fitShared(const AttentionProblem &p, AttentionTile &tile, const target::Target &gpu) {
  while (FlashShape(p, tile).sharedBytes() > gpu.sharedBytes) {
    if (tile.stages > 2) {
      --tile.stages;
    } else if (tile.keys / tile.keyWarps > kMmaDepth) {
      tile.keys /= 2;
    } else if (tile.keyWarps > 1) {
      tile.keyWarps /= 2;
      tile.rowWarps *= 2;
    } else {
      return;
    }
  }
}

} // namespace

int64_t blocksAtOnce(const AttentionProblem &p, const AttentionTile &tile,
                     const target::Target &gpu) {
  if (!tile.isWarpgroup) {
    return 1;
  }
  if (p.sequences) {
    // A part's sums are apart from those before it.
    bool isSlim =
        *tn::constantDim(p.width) + *tn::constantDim(p.valueWidth) <= 2 * tuning::kNarrowHead;
    return (isSlim ? tuning::kSlimGroups : tuning::kPagedGroups) * kWarpgroup / tile.threads();
  }
  int64_t ofThread = llvm::alignTo(groupRegisters(p, tile), 8);
  return std::min(gpu.registers / ofThread / tile.threads(),
                  gpu.sharedOfProcessor / FlashShape(p, tile).sharedBytes());
}

AttentionTile chooseTile(const AttentionProblem &p, const target::Target &gpu) {
  AttentionTile tile = fastestTile(p, gpu);
  fitColumns(p, tile);
  if (!tile.isWarpgroup) {
    fitShared(p, tile, gpu);
  }
  return tile;
}

AttentionTile fewTokensTile(const AttentionProblem &p, int64_t splits, const target::Target &gpu) {
  bool isWide = widestOf(p) > tuning::kPartColumns;
  int64_t group = *tn::constantDim(p.heads) / *tn::constantDim(p.keyHeads);
  AttentionTile tile;
  tile.isParts = true;
  tile.rowWarps = 1;
  tile.stages = 1;
  tile.splits = gpu.hasClusters() ? splits : 1;
  tile.isClustered = tile.splits > 1;
  tile.joinsHeads = group > 1 && group <= tuning::kDecodeQueries;
  int64_t keys = isWide ? tuning::kWideHeadKeys : tuning::kPagedPartKeys;
  for (tile.keyWarps = tuning::kPagedWarps;; tile.keyWarps /= 2) {
    tile.keys = tile.keyWarps * keys;
    if (tile.keyWarps == 1 || FlashShape(p, tile).sharedBytes() <= gpu.sharedBytes) {
      return tile;
    }
  }
}

AttentionTile manyTokensTile(const AttentionProblem &p, int64_t tokens, const target::Target &gpu) {
  AttentionTile tile;
  tile.keys = widestOf(p) > tuning::kPartColumns ? tuning::kWideHeadKeys : tuning::kPagedPartKeys;
  tile.isHeaviestFirst = fitCache(p, gpu);
  // Of heads in whole tiles, whose sums have room beside those of a part.
  bool fitsGroups = gpu.has(target::Feature::WarpgroupMma) && widestOf(p) <= tuning::kPartColumns &&
                    *tn::constantDim(p.width) % kTileColumns == 0 &&
                    *tn::constantDim(p.valueWidth) % kTileColumns == 0;
  tile.isWarpgroup = fitsGroups && FlashShape(p, tile).sharedBytes() <= gpu.sharedBytes;
  AttentionTile shared = tile;
  shared.rowWarps = 2 * kWarpsOfGroup;
  shared.stages = tuning::kPagedManyStages;
  bool isNarrow = widestOf(p) <= tuning::kNarrowHead;
  int64_t blocks = *tn::constantDim(p.heads) * (tokens / shared.rows());
  bool fitsShared = FlashShape(p, shared).sharedBytes() * (isNarrow ? 2 : 1) <= gpu.sharedBytes;
  return tile.isWarpgroup && fitsShared && blocks >= gpu.cores * (isNarrow ? 2 : 1) ? shared : tile;
}

std::vector<AttentionTile> tilesOf(const AttentionProblem &p, const target::Target &gpu) {
  AttentionTile own = chooseTile(p, gpu);
  std::optional<int64_t> queries = tn::constantDim(p.queries), keys = tn::constantDim(p.keys);
  std::vector<AttentionTile> tiles = {own};
  auto add = [&](AttentionTile tile) {
    tile.isClustered = tile.splits > 1 && gpu.clusterBlocks > 1;
    fitColumns(p, tile);
    tile.endsAtMask = own.endsAtMask && *keys > tile.keys;
    tile.isHeaviestFirst = own.isHeaviestFirst;
    bool fits =
        FlashShape(p, tile).sharedBytes() <= gpu.sharedBytes && blocksAtOnce(p, tile, gpu) > 0;
    if (!(tile == own) && fits) {
      tiles.push_back(tile);
    }
  };
  if (!queries || !keys || !tn::constantDim(p.heads)) {
    return tiles;
  }
  int64_t mostSplits = gpu.clusterBlocks > 1 ? tuning::kFlashClusterBlocks : tuning::kMaxSplits;
  bool isDecoding = *queries <= tuning::kDecodeQueries, maskHasRows = hasMaskRows(p);
  for (int64_t splits = 1; splits <= mostSplits; splits *= 2) {
    for (int64_t tileKeys : {tuning::kDecodeKeys, tuning::kLongDecodeKeys}) {
      if (splits > llvm::divideCeilSigned(*keys, tileKeys)) {
        continue;
      }
      for (int64_t stages : {tuning::kLongDecodeStages, tuning::kDecodeStages}) {
        AttentionTile tile;
        tile.rowWarps = 1;
        tile.keyWarps = tuning::kDecodeWarps;
        tile.keys = tileKeys;
        tile.splits = splits;
        tile.joinsHeads = own.joinsHeads;
        tile.stages = stages;
        add(tile);
        if (!isDecoding && stages == tuning::kLongDecodeStages && splits == 1) {
          tile.rowWarps = tile.keyWarps = 2;
          add(tile);
        }
      }
    }
  }
  if (isDecoding) {
    return tiles;
  }
  AttentionTile tile;
  add(tile);
  tile.rowWarps = 8;
  add(tile);
  if (widestOf(p) <= tuning::kNarrowHead && !maskHasRows) {
    tile.rowWarps = 4;
    tile.rowTiles = 2;
    add(tile);
  }
  if (gpu.has(target::Feature::WarpgroupMma)) {
    for (int64_t groups : {1, 2}) {
      for (int64_t stages : {2, 3, 4}) {
        for (bool overlaps : {false, true}) {
          tile = AttentionTile();
          tile.isWarpgroup = true;
          tile.rowWarps = groups * kWarpsOfGroup;
          tile.stages = stages;
          tile.overlaps = overlaps;
          if (!overlaps || stages > 2) {
            add(tile);
          }
        }
      }
    }
  }
  return tiles;
}

} // namespace tenon::codegen::cuda
