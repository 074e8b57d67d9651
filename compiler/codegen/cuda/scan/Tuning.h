// The numbers that tune scans, each with its unit and where it comes from.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Threads of a block: enough that two or more share a multiprocessor while one waits for the
/// others of its block. Chosen, not measured.
inline constexpr int64_t kScanThreads = 256;
/// Bytes of a row that a thread holds at once: two accesses of 16 bytes. Chosen, not measured.
inline constexpr int64_t kScanBytes = 32;
/// Elements along the axis that a thread holds of a column (derived: as many loads are on the way
/// for each thread as hide the memory's latency at half of the threads of a multiprocessor).
inline constexpr int64_t kColumnSteps = 8;
/// Blocks for each multiprocessor below which an axis is cut into pieces, of so many tiles or more,
/// and pieces at most, since each block adds up those before its own. Chosen, not measured.
inline constexpr int64_t kScanBlocks = 2, kFewTiles = 4, kMaxPieces = 512;

} // namespace tenon::codegen::cuda::tuning
