// The configuration of a tiled product: the parameters of gemm_tensorcore, gemm_simt and of the
// convolutions that run in the same frame.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

#include <cstdint>

namespace tenon::codegen::cuda {

/// Neighbours in a row that a thread of the plain form does together.
inline constexpr int64_t kSimtPart = 4;

/// How a product is laid out: a warp does warpRows x warpColumns of a block's tile.
struct GemmTile {
  int64_t rows = 64, columns = 64, depth = 64;
  int64_t warpRows = 32, warpColumns = 32;
  int64_t stages = 3;
  int64_t splits = 1; ///< blocks of a cluster, each with a part of the depth
  /// Parts of the depth that are added up in the order of gemv (SlicedGemm.cpp), each block of a
  /// cluster doing as many; 0: each block has one part, in the order of the depth.
  int64_t slices = 0;

  /// Products of warpgroups (base/Warpgroup.h), each with 64 rows of the tile and all of its
  /// columns: a warp has 16 rows, the depth is that of their tiles.
  bool isWarpgroup = false;

  /// FP32 arithmetic without stages: a thread does warpRows x warpColumns, stages and splits are 1.
  bool isSimt = false;

  int64_t threads() const {
    int64_t parts = rows / warpRows * (columns / warpColumns);
    return isSimt ? parts : parts * kWarp;
  }
  /// Stages whose copies are under way beside the one that is multiplied: products of warpgroups
  /// may still read the one before.
  int64_t ahead() const { return stages - (isWarpgroup ? 2 : 1); }
};

template <typename Visitor> void visitParameters(Visitor &visit, GemmTile &tile) {
  visit("tile", tile.rows, tile.columns, tile.depth);
  visit(tile.isSimt ? "thread" : "warp", tile.warpRows, tile.warpColumns);
  visit("stages", tile.stages);
  visit("split_k", tile.splits);
}

} // namespace tenon::codegen::cuda
