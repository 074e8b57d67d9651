// The kernels that attention regions are made of. Relies on AttentionMatch for the problem; each
// appends its steps.
#pragma once

#include "compiler/codegen/cuda/attention/AttentionMatch.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"

#include <vector>

namespace tenon::codegen::cuda {

/// How the flash form is laid out: a block does rowTiles * rowWarps * 16 queries of a head, in
/// steps of `keys` keys, of which each of its `keyWarps` groups of warps does an equal part.
struct AttentionTile {
  int64_t rowTiles = 1; ///< of 16 queries, a warp
  int64_t rowWarps = 4;
  int64_t keyWarps = 1;
  int64_t keys = 64;
  int64_t splits = 1; ///< of the keys over blocks, tile by tile in turn; needs four keyWarps
  /// The heads that share a key head are rows of one block (for few queries).
  bool joinsHeads = false;
  int64_t stages = 2; ///< tiles of keys in shared memory: one in use, the others under way
  /// The splits are a cluster, whose blocks add up their accumulators; else a second kernel does.
  bool isClustered = false;
  /// Keys behind the last one that the mask lets through are not read.
  bool endsAtMask = false;
  /// The products are those of Warpgroup.h: rowWarps is a multiple of 4, rowTiles, keyWarps and
  /// splits are 1.
  bool isWarpgroup = false;
  /// Of warpgroups: the product of a tile's probabilities and values is under way while those of
  /// the next tile are computed. Then there are three stages or more, and no pages.
  bool overlaps = false;
  /// Where causal: the later queries of all heads come before the earlier ones, which have fewer
  /// keys to go over, so that no processor has much left when the others end.
  bool isHeaviestFirst = false;
  /// Each of the keyWarps takes whole parts of keys, of `keys` / keyWarps, the blocks of a cluster
  /// in turn; what each makes of one is brought together in their order (AttentionFlashParts.cpp).
  /// Then rowTiles, rowWarps and stages are 1, and splits are clustered.
  bool isParts = false;

  int64_t rows() const { return rowTiles * rowWarps * 16; }
  int64_t threads() const { return rowWarps * keyWarps * 32; }
  bool operator==(const AttentionTile &other) const = default;
};

template <typename Visitor> void visitParameters(Visitor &visit, AttentionTile &tile) {
  visit("row_tiles", tile.rowTiles);
  visit("row_warps", tile.rowWarps);
  visit("key_warps", tile.keyWarps);
  visit("keys", tile.keys);
  visit("split_k", tile.splits);
  visit("joins_heads", tile.joinsHeads);
  visit("stages", tile.stages);
  visit("clustered", tile.isClustered);
  visit("ends_at_mask", tile.endsAtMask);
  visit("wgmma", tile.isWarpgroup);
  visit("overlaps", tile.overlaps);
  visit("heaviest_first", tile.isHeaviestFirst);
  visit("parts", tile.isParts);
}

/// The base-2 logarithms of probabilities are scores of the loop, relative to their maximum, times
/// this.
double weightExponent(const AttentionProblem &problem);

/// Where the elements at a place of a tensor begin, in the buffer at a position of the kernel's:
/// batch, head and row (i32), or the first of them.
mlir::Value pointerTo(const ThreadBuilder &t, KernelFrame &frame, unsigned position,
                      const StridedTensor &tensor, mlir::ValueRange place);

/// Where causal: the position of the first query (i32).
mlir::Value startOf(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &problem);

/// Scores and sums on tensor cores; f16 and bf16 (AttentionTensorCore.cpp).
bool fitsTensorCores(const AttentionProblem &problem);
/// All tiles that it can be compiled with for these sizes.
std::vector<AttentionTile> tilesOf(const AttentionProblem &problem, const target::Target &gpu);
AttentionTile chooseTile(const AttentionProblem &problem, const target::Target &gpu);
/// Blocks that a multiprocessor has registers and shared memory for. Without warpgroups it is one,
/// with registers for what it loads ahead, which ptxas by itself gives up so that more would fit.
int64_t blocksAtOnce(const AttentionProblem &problem, const AttentionTile &tile,
                     const target::Target &gpu);
/// Over pages: of steps of few tokens, whose keys `splits` blocks share, and of many.
AttentionTile fewTokensTile(const AttentionProblem &problem, int64_t splits,
                            const target::Target &gpu);
AttentionTile manyTokensTile(const AttentionProblem &problem, int64_t tokens,
                             const target::Target &gpu);
void emitTensorCoreAttention(RegionBuilder &region, const AttentionProblem &problem,
                             const AttentionTile &tile);

/// Whether all queries, and all heads of a block if they are joined, have the same mask.
bool sharesMask(const AttentionProblem &problem, bool joinsHeads);

/// The sum of the splits: rows of partial sums [splits, rows, valueWidth] and of {maximum, sum of
/// probabilities} [splits, rows, 2] to the result (AttentionCombine.cpp).
void emitAttentionCombine(RegionBuilder &region, const AttentionProblem &problem, int64_t splits);

/// By what the accumulators of a row are divided, and 1 over it. A row that saw no key has a total
/// and accumulators of 0, and keeps them or is NaN, as the problem says (AttentionCombine.cpp).
mlir::Value totalDivisor(const ThreadBuilder &t, KernelFrame &frame,
                         const AttentionProblem &problem, mlir::Value total);
mlir::Value inverseTotal(const ThreadBuilder &t, KernelFrame &frame,
                         const AttentionProblem &problem, mlir::Value total);

/// Queries and keys of a tile of FP32 arithmetic.
struct SimtTile {
  int64_t rows = 64, keys = 64;
};

template <typename Visitor> void visitParameters(Visitor &visit, SimtTile &tile) {
  visit("tile", tile.rows, tile.keys);
}

/// All float types up to f32, and head sizes up to 256 that fit shared memory; none for others
/// (AttentionSimt.cpp).
std::optional<SimtTile> simtTile(const AttentionProblem &problem, const target::Target &gpu);
void emitSimtAttention(RegionBuilder &region, const AttentionProblem &problem,
                       const SimtTile &tile);

} // namespace tenon::codegen::cuda
