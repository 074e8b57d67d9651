// The numbers that tune row kernels and reductions, each with its unit and where it comes from.
// What follows from the hardware is the target's (compiler/target); how threads share rows is in
// dispatch/RowReductionConfig, since the cost model counts registers by it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Elements of a thread that are loaded before any of them is used, and strips (or steps) of them.
/// Chosen, not measured by itself.
inline constexpr int64_t kElementsAhead = 16, kMaxAhead = 4;
/// Warps of a block up to which each thread adds up their parts by itself, else lanes do together.
/// Chosen, not measured.
inline constexpr int64_t kAloneWarps = 8;

// rows_staged.

/// Sums side by side in a thread, so that additions need not wait for each other: derived, an
/// addition takes about four cycles.
inline constexpr size_t kSumsBeside = 4;

// rows_loops. Chosen, not measured.

/// Rows below and elements above which rows are so few and long that each is work for many blocks.
inline constexpr int64_t kFewRows = 64, kManyElements = int64_t(1) << 18;
/// Threads of a block; of a row with more than so many elements.
inline constexpr int64_t kLoopThreads = 256, kLongLoopThreads = 512, kLongRow = 16384;

// Reductions over other dims (RowsReduction). Chosen, not measured by themselves.

/// Elements below which one thread may reduce them as well, and threads that are enough for that.
inline constexpr int64_t kShortReduction = 16, kEnoughThreads = 65536;
/// Threads of a block.
inline constexpr int64_t kSpreadThreads = 256;
/// Blocks that fill a multiprocessor; blocks of a grid that make a second kernel not worth its
/// launch; parts of a result that a second kernel combines at most.
inline constexpr int64_t kFillingBlocks = 4, kManyBlocks = 64, kMaxParts = 512;
/// Strips of a thread from which on a second kernel is worth its launch until so many blocks of
/// each multiprocessor read; parts that a thread of that kernel loads before it combines them.
inline constexpr int64_t kLongStrips = 32, kReadingBlocks = 2, kPartsAhead = 8;
/// Bytes beside each other that a row of threads reads at least: a line of the caches.
inline constexpr int64_t kLine = 128;
/// Steps of a thread that make it worth starting.
inline constexpr int64_t kFewSteps = 4;

// columns_tiled. Chosen, not measured.

/// Threads of a block, and below which it gets wider; blocks of a cluster at most.
inline constexpr int64_t kColumnThreads = 512, kFewColumnThreads = 128, kColumnBlocks = 8;
/// Elements of one tensor that a thread holds in registers at most.
inline constexpr int64_t kColumnElements = 32;
/// The same where groups of columns are reduced together: derived, as f32 they are half of the
/// registers that 512 threads have.
inline constexpr int64_t kGroupElements = 64;
/// Columns of such a group at most; threads of a block where these are enough: on an H200 group
/// norms of 2 x 1,024 x 128 take 2.8 us so and 3.4 with 512, of 2 x 1,024 x 1,920 10.9 and 12.4.
inline constexpr int64_t kMostGroup = 128, kGroupThreads = 256;
/// Elements that are not left to blocks of which so many multiprocessors have one.
inline constexpr int64_t kMuchOfColumns = int64_t(1) << 20, kColumnShare = 4;

/// Predicted seconds until a block has what it reads at once and has added it up, and for each time
/// that the blocks of a cluster meet: 1.9 us for columns of a block, 3.2 to 3.4 in clusters that
/// meet twice, on an H200.
inline constexpr double kColumnsFillSeconds = 0.85e-6, kColumnsMeetSeconds = 0.72e-6;

/// Predicted seconds of a row whose block reads it in loops, of those that a multiprocessor does:
/// 0.15 for rows of 49, 0.2 to 0.3 us for rows of 768 on an H200.
inline constexpr double kLoopsRowSeconds = 0.15e-6;

} // namespace tenon::codegen::cuda::tuning
