// The numbers that tune GEMV and GEMM kernels, each with its unit and where it comes from. What
// follows from the hardware is the target's (compiler/target).
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

// gemv. Measured on an H200 for the products of a 1B Llama (2048 to 16384 columns, depth 2048 and
// 8192, each after the others in one graph): 4.0, 2.9, 15.7 and 8.4 us for one row, 4.9, 4.1, 17.7
// and 11.2 for 16, where the library needs 6.5, 6.1, 19.6 and 13.5.

/// Warps of a block, and of one with a long depth.
inline constexpr int64_t kGemvWarps = 8, kGemvLongWarps = 16;
/// Panels of 32 of the depth beyond which it is long: with up to 8 rows, and with more.
inline constexpr int64_t kGemvLongNarrow = 64, kGemvLongWide = 128;
/// Panels that a warp has under way, and where registers are for a second block or more warps.
inline constexpr int64_t kGemvPanels = 8, kGemvFewPanels = 4;
/// Blocks that share a multiprocessor where there are more tiles than multiprocessors.
inline constexpr int64_t kGemvBlocksPerSm = 2;
/// Reads of 16 bytes by a lane for its part of an RMS norm: derived from the registers that weights
/// leave.
inline constexpr int64_t kGemvNormSteps = 4;

/// Predicted seconds besides the stream of weights, and for each wave of blocks: fitted to 27
/// kernels on an H200, 8 % off (root mean square).
inline constexpr double kGemvSeconds = 1.05e-6, kGemvWaveSeconds = 0.067e-6;
/// Seconds of an element of all rows where every block norms them: 16 rows of 2,048 take 2.5 to 4
/// us of a product on an H200.
inline constexpr double kGemvNormedSeconds = 0.1e-9;

// gemv_low_bit. On an H200, one token of a 1B Llama with weights of Q4_0, in a graph.

/// Panels of the depth from which on a block has as many warps as a long GEMV.
inline constexpr int64_t kLowBitLongPanels = 128;
/// Where one wave of blocks has all tiles: warps of a block at most, and panels of each at least:
/// with 4 of them, which end inside sectors, 3,072 columns take 4.9 us for 4.0.
inline constexpr int64_t kLowBitMostWarps = 32, kLowBitLeastPanels = 8;
/// Stages of a warp's ring at most: with three of gate and up 0.602 ms for 0.587.
inline constexpr int64_t kLowBitStages = 2;

// gemm_skinny. Measured on an H200 (docs/adr/0007).

/// Rows at most.
inline constexpr int64_t kSkinnyRows = 512;
/// Columns of a tile.
inline constexpr int64_t kSkinnyLeastColumns = 16, kSkinnyMostColumns = 128, kSkinnyColumnStep = 8;
/// Blocks that all run at once in clusters, which not every multiprocessor is part of.
inline constexpr int64_t kSkinnyInClusters = 96;
/// Up to so many rows the next product's blocks find room beside this one's, and bring their
/// weights; with more, operands take the time, and all of the memory brings them sooner.
inline constexpr int64_t kSkinnyRowsBeside = 128;
/// A library's call is as fast from here on.
inline constexpr int64_t kSkinnyCost = 750000;
/// Stages that a ring needs: one is read, one released, one filled.
inline constexpr int64_t kSkinnyLeastStages = 3;

// gemm_persistent. On an H200, 24,576 x 4,096 x 1,024 (docs/adr/0005).

/// Stages of the ring: derived, as many of 48 KiB as 227 KiB hold beside the accumulators handed
/// over.
inline constexpr int64_t kPersistentStages = 3;
/// Rows of tiles (of 128) that blocks go through together, so that the L2 keeps what they read: any
/// from 8 to 48 are as good.
inline constexpr int64_t kRowTilesTogether = 16;

/// Tiles from which on an H200 is busy long enough for the kernel to gain on a library's call with
/// a pass over memory behind it.
inline constexpr int64_t kMinLargeTiles = 300;

/// Predicted seconds for the first tile's way through the ring.
inline constexpr double kPersistentSeconds = 3e-6;

// gemm_tensorcore: the tiles that are tried, and the estimate that chooses one.

/// Rows, columns and blocks that share the depth (a cluster).
inline constexpr int64_t kTileRows[] = {16, 32, 64, 128};
inline constexpr int64_t kTileWidths[] = {32, 64, 128};
inline constexpr int64_t kTileSplits[] = {1, 2, 3, 4, 6, 8};
/// Elements of a tile from which on a block has 8 warps for 4, and a warp 64 rows for 32: a warp's
/// accumulators take at most 64 registers.
inline constexpr int64_t kManyWarpsTile = 8192, kLargeWarpTile = 16384;
/// Bytes of the ring of stages, and stages at least and at most.
inline constexpr int64_t kRingBytes = 65536, kMinStages = 3, kMaxStages = 6;
/// Threads of a multiprocessor whose blocks go from tile to tile: derived, 128 registers each.
inline constexpr int64_t kTiledThreads = 512;
/// Bytes of shared memory that a block has besides its stages.
inline constexpr int64_t kBesideStages = 4096;
/// Of the estimate, fitted to 720 kernels on an H200, 20 % off (root mean square). Seconds: from
/// the kernel before to the first block, from a block's first load to its first product, of a stage
/// at least, for a cluster to meet and for each block of it.
inline constexpr double kStartSeconds = 0.4e-6, kFillSeconds = 0.66e-6, kStageSeconds = 0.1e-6,
                        kClusterSeconds = 0.29e-6, kSplitSeconds = 0.14e-6;
/// Copies of less than 16 bytes that a multiprocessor starts a second, at 12 instructions for each;
/// chosen, not measured.
inline constexpr double kCopyRate = 18e9;
/// What one block's mma.sync reaches of a library's products, and with warps of 64 rows: the scores
/// of GPT-2 for 128 tokens, 2,048 and 4,096 rows, and 18 products of 8 to 384, on an H200.
inline constexpr double kMmaShare = 0.29, kLargeWarpShare = 0.42;
/// Elements a second of a block's tile on their way out.
inline constexpr double kTileOutRate = 15e9;

// gemm_warpgroup and conv_warpgroup.

/// Rows and columns of the tiles that are tried; stages at most; registers of a thread besides its
/// sums: derived, three blocks of 128 x 64 and two of 128 x 128 share a multiprocessor.
inline constexpr int64_t kWarpgroupRows[] = {128, 256};
inline constexpr int64_t kWarpgroupWidths[] = {64, 128, 256};
inline constexpr int64_t kWarpgroupStages = 4, kWarpgroupRegisters = 50;
/// Of the estimate, from the convolutions of ResNet-50 at batch 256 in five tiles each on an H200.
/// What wgmma reaches of its peak, and in tiles of 64 columns, for which it reads as much of A as
/// of B; copies of the rate of the second-level cache for different bytes; of the memory's rate.
inline constexpr double kWarpgroupShare = 0.7, kWarpgroupNarrowShare = 0.4, kWarpgroupCache = 1.6,
                        kWarpgroupMemory = 0.85;
/// Elements of a multiprocessor's tiles a second on their way out.
inline constexpr double kWarpgroupOutRate = 40e9;

// gemm_simt. Chosen, not measured.

/// Rows and columns of a tile where there is one for each multiprocessor, and of smaller ones; its
/// depth.
inline constexpr int64_t kSimtLarge = 128, kSimtSmall = 64, kSimtDepth = 16;
/// What it reaches of the FP32 peak, and seconds besides: 64 x 64 and 128 x 128 on an H200.
inline constexpr double kSimtShare = 0.57, kSimtSeconds = 2e-6;

} // namespace tenon::codegen::cuda::tuning
