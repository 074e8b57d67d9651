// The numbers that tune attention kernels, each with its unit and where it comes from. What follows
// from the hardware is the target's (compiler/target).
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

// attention_stream. On an H200, FP16, heads of 64.

/// Warpgroups that multiply: derived, 3 x 128 threads with 160 registers beside one that copies.
inline constexpr int64_t kStreamGroups = 3;
/// Registers of a thread of the warpgroup that copies, and of one that multiplies: derived, 128 x
/// (32 + 3 x 160) are those of a multiprocessor.
inline constexpr int64_t kCopyRegisters = 32, kMultiplyRegisters = 160;
/// Keys of a tile: a score of each takes half a register of a thread.
inline constexpr int64_t kMaxTileKeys = 128;
/// The same where a last tile of another size is code of its own besides: ptxas 13.0 was seen to
/// spill a few words a unit with more.
inline constexpr int64_t kMaxKeysBesideLast = 96;
/// Stages (tiles of K or V) beyond which more brought nothing: two heads of 384 keys.
inline constexpr int64_t kMaxStages = 24;
/// Tiles of a head from which on warpgroups ping-pong: 64 x 16 x 384 x 384 in 93 us,
/// 99 without; two tiles 33.5 and 33.7, one 11.9 and 11.6.
inline constexpr int64_t kPingPongTiles = 3;
/// Percent of the multiprocessors that must have work in the last round of heads. Chosen between
/// the shapes of the zoo, not measured by itself.
inline constexpr int64_t kMinBusy = 75;

// attention_flash. On an H200; decoding with 1,000 of 2,048 keys seen, 8 and 128 lists.

/// Queries up to which it is a step of decoding: derived, the rows of one mma.
inline constexpr int64_t kDecodeQueries = 16;
/// Rows of blocks for which ranges of many queries that vary have kernels of their own: those of
/// one warpgroup and of two.
inline constexpr int64_t kManyQueriesRows[] = {64, 128};
/// Blocks that share a list's keys: of a cluster, as many as every GPU with clusters runs, and
/// where a second kernel adds up.
inline constexpr int64_t kFlashClusterBlocks = 8, kMaxSplits = 32;
/// Blocks a multiprocessor, for decoding, up to which keys are split.
inline constexpr int64_t kDecodeBlocks = 2;
/// Warps that share keys: 4; 8 take 5.0 us for 3.6 with 8 lists, 11.5 for 11.3 with 128.
inline constexpr int64_t kDecodeWarps = 4;
/// Keys of a block from which on its tiles are larger: tiles of 64 take 12.3 us for 11.3 with 128
/// lists, tiles of 128 3.7 for 3.6 with 8.
inline constexpr int64_t kLongKeys = 512;
/// Keys of a tile and tiles in shared memory: with few keys, and with many.
inline constexpr int64_t kDecodeKeys = 64, kDecodeStages = 3;
inline constexpr int64_t kLongDecodeKeys = 128, kLongDecodeStages = 2;
/// Columns of heads that leave registers for two row tiles a warp or 128 keys a tile.
inline constexpr int64_t kNarrowHead = 64;
/// Registers of a warpgroup's thread besides its accumulators and scores, with more where a mask
/// with rows is added while products are under way: ptxas 13.0 was seen to spill with 8 fewer.
inline constexpr int64_t kGroupRegisters = 40, kOverlappedMaskRegisters = 24;
/// Columns of Q and of V of the widest heads, and columns of V of which a thread has registers for
/// accumulators beside those of Q (derived: 64 of 255 each).
inline constexpr int64_t kWidestHead = 256, kPartColumns = 128;
/// Keys of a tile beside heads wider than that: a warp's scores then leave registers for Q.
inline constexpr int64_t kWideHeadKeys = 32;
/// Multiprocessors for each of which that many warpgroups' blocks make them faster than warps that
/// share keys: 64 blocks take 5.9 us for 8.6 on 132.
inline constexpr int64_t kGroupsOfCores = 3;
/// Columns up to which two warpgroups share tiles of keys, and up to which products overlap then,
/// where so many percent of the processors have two blocks. In us, one group, two and two with
/// overlap: 8 x 16 x 512 x 512 x 80 51.5, 41.2 and 40.9; 4 x 16 x 512 x 512 x 96 27.3, 20.2 and
/// 25.2; 8 x 8 x 512 x 512 x 32 12.7, 11.3 and 10.6; 4 x 16 x 1,024 x 1,024 x 128 97, 98 and 90,
/// and 86 one with overlap; 4 x 16 x 512 x 512 x 256 66 one and 62 with overlap.
inline constexpr int64_t kPairColumns = 96, kPairOverlapColumns = 80, kPairBusy = 85;
/// Columns of heads for which one warpgroup is as good until there are so many keys: 8 x 12 x 512 x
/// 512 x 64 20.1 and 20.9, with 2,048 and causal 49 and 51.
inline constexpr int64_t kTinyHead = 32, kSharedGroupKeys = 1024;
/// Pieces of the mask that a thread keeps in registers while it asks for keys: of 16 bytes, and of
/// single elements. Chosen, not measured.
inline constexpr int64_t kMaskPieces = 4, kMaskElements = 8;
/// Keys whose mask a warpgroup keeps as f32: 4 KiB beside the tiles.
inline constexpr int64_t kKeptMask = 1024;
/// Lanes that add up the parts of a place together.
inline constexpr int64_t kMergingLanes = 8;
/// Rows of a block of the kernel that brings parts together, a warp each.
inline constexpr int64_t kCombineRows = 4;

// attention_paged.

/// Tokens of a step up to which sequences are taken to have one each or a few, so that warps share
/// their keys: those of a batch of decoding.
inline constexpr int64_t kPagedFewTokens = 64;
/// Tokens times heads of keys up to which blocks share them too, and how many do.
inline constexpr int64_t kPagedSplitHeads = 32, kPagedSplits = 8;
/// Keys of a part, whose sums are the same however parts are shared, and warps that share them.
inline constexpr int64_t kPagedPartKeys = 64, kPagedWarps = 8;
/// Warpgroups for whose registers a multiprocessor must have room: of heads of up to 64, and wider.
inline constexpr int64_t kSlimGroups = 4, kPagedGroups = 2;
/// Tokens of a step from which on two warpgroups share tiles of keys.
inline constexpr int64_t kPagedManyTokens = 1024;
/// Tiles of keys in shared memory then.
inline constexpr int64_t kPagedManyStages = 3;

// attention_simt. Chosen, not measured.

/// Queries and keys of a tile: for heads of up to 64, and for wider ones.
inline constexpr int64_t kSimtTile = 64, kSimtSmallTile = 32;
/// Loads of a thread under way when tiles are brought in.
inline constexpr int64_t kSimtLoads = 4;
/// Blocks for whose registers a multiprocessor must have room.
inline constexpr int64_t kSimtBlocks = 1;

/// What it reaches of the FP32 peak, on an H200.
inline constexpr double kSimtShare = 0.9;

// Predicted times of all of them, fitted to measurements on an H200.

/// Seconds: from the first load to the last store; of a tile of keys besides its products; for
/// splits to meet in a cluster, and in a second kernel.
inline constexpr double kAttentionSeconds = 1.9e-6, kTileSeconds = 0.25e-6, kSplitSeconds = 0.7e-6,
                        kCombineSeconds = 2e-6;
/// The same of warpgroups' flash form: all of it but tiles, what a tile of 64 queries and keys
/// takes of a multiprocessor besides its products, and how long it takes where nothing runs beside
/// it. Within 15 % of 13 shapes, 4 heads of 32 to 16 x 16 of 128.
inline constexpr double kGroupSeconds = 2.5e-6, kGroupTileSeconds = 0.105e-6,
                        kLoneTileSeconds = 0.55e-6;
/// What mma.sync and wgmma beside softmax reach of a library's products.
inline constexpr double kMmaShare = 0.45, kWarpgroupShare = 0.7;

} // namespace tenon::codegen::cuda::tuning
