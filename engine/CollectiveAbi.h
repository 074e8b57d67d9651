// The contract between the kernels of collectives, which the compiler generates, and whoever starts
// them on each GPU of a group: arguments, and the layout of the memory that the ranks share. Both
// sides include this file.

#pragma once

#include <cstdint>

namespace tenon::engine {

/// What an access moves; messages are whole numbers of them.
inline constexpr int64_t kCollectiveVector = 16;
/// Most ranks of a group and most blocks of a kernel: what the flags have room for.
inline constexpr int64_t kCollectiveRanks = 8;
inline constexpr int64_t kCollectiveBlocks = 128;
/// Longest message of a one-shot kernel: each word of it travels with the run's number beside it.
inline constexpr int64_t kOneShotBytes = int64_t(512) << 10;

/// Longest message of the fused kernel that pays: beyond, one-shot and a kernel of rows take less.
inline constexpr int64_t kNormedBytes = int64_t(64) << 10;

/// The memory that a rank shares, zero at first:
/// - for each block the number of its last run, as 32 bits; then a word that is not 0 once a rank
///   did not come;
/// - flags of two-shot kernels, [run odd][step][block][rank it is from], 32 bits each;
/// - words of one-shot kernels, [run odd][rank it is from], two bytes for each byte of a message:
///   of 32 vectors the first halves, then the second ones;
/// - parts of two-shot kernels, [run odd][step][rank it is from], in `partBytes` each.
/// Runs alternate between two halves: a rank may be one run ahead of another, not two.
inline constexpr int64_t kCollectiveBroken = kCollectiveBlocks * 4;
inline constexpr int64_t kCollectiveFlags = 4096;
inline constexpr int64_t kCollectiveFlagBytes = 2 * 2 * kCollectiveBlocks * kCollectiveRanks * 4;
inline constexpr int64_t kCollectiveWords = kCollectiveFlags + kCollectiveFlagBytes;
constexpr int64_t collectiveParts(int64_t ranks) {
  return kCollectiveWords + 2 * ranks * 2 * kOneShotBytes;
}
/// A rank's part of the longest message of two-shot kernels.
constexpr int64_t collectivePartBytes(int64_t longestMessage, int64_t ranks) {
  int64_t vectors = (longestMessage + kCollectiveVector - 1) / kCollectiveVector;
  return (vectors + ranks - 1) / ranks * kCollectiveVector;
}
constexpr int64_t collectiveSharedBytes(int64_t longestMessage, int64_t ranks) {
  return collectiveParts(ranks) + 2 * 2 * ranks * collectivePartBytes(longestMessage, ranks);
}

/// Threads of a block of the all-reduces.
inline constexpr int64_t kOneShotThreads = 256;
inline constexpr int64_t kTwoShotThreads = 512;

/// Arguments: x, y (which may be x), the shared memory of each rank in their order, the status;
/// then as 64 bits: vectors of the message, rank, polls, partBytes. The last two are how often a
/// thread looks for what a rank sends before it gives up, and collectivePartBytes (0 for one-shot).
/// The status is a word that becomes 1 + the rank that did not come.
///
/// An all-gather is one-shot; x has the vectors of one rank, y those of all, and the last size is
/// how many vectors lie between two ranks' in y.
///
/// The fused kernel takes rows of x, the residual, the norm's weight; writes residual + sum, and
/// its norm; sizes are the blocks of all rows (a row's side by side, then again from the first
/// block), rank, polls and 0.
inline constexpr int64_t kCollectiveSizes = 4;

} // namespace tenon::engine
