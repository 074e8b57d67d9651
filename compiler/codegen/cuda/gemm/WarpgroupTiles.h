// Tiles of products of bytes by warpgroups (base/Warpgroup.h) in the frame of TiledGemmKernel.h,
// and the estimate that chooses one: shared by matrices and convolutions.
#pragma once

#include "compiler/codegen/cuda/gemm/TiledGemm.h"

#include <vector>

namespace tenon::codegen::cuda {

/// With warps and stages as they suit it.
GemmTile warpgroupTile(int64_t rows, int64_t columns, const target::Target &gpu);
/// Blocks of such a tile that a multiprocessor has registers for.
int64_t warpgroupBlocks(const GemmTile &tile);
/// Those of a product of so many columns that a target has room for.
std::vector<GemmTile> warpgroupTiles(int64_t columns, const target::Target &gpu);
/// Predicted parts of the time; rows, columns and depth of `sizes` are in elements of 16 bits.
dispatch::TimeParts estimateWarpgroup(const GemmSizes &sizes, const GemmTile &tile,
                                      const target::Target &gpu);
/// The fastest by that.
GemmTile chooseWarpgroupTile(const GemmSizes &sizes, const target::Target &gpu);
/// That of a choice.
GemmTile warpgroupTileOf(const dispatch::KernelChoice &choice);

} // namespace tenon::codegen::cuda
