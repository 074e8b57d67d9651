// The numbers that tune selections, each with its unit and where it comes from.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Threads of a block, which works alone: half of what a block may have. Chosen, not measured.
inline constexpr int64_t kSelectionThreads = 512;

/// Threads of a block that draws a token of a row: all that a block may have, since a row has no
/// other. Tokens that the block lists in shared memory at most (derived: 16 bytes each, within what
/// every GPU from sm_86 on gives a block), and threads whose own largest logits bound a list of
/// tokens that top-p is taken of (derived: of 1,024 threads that see tokens in any order, 960 have
/// one of the first 2,800). Chosen, not measured.
inline constexpr int64_t kSampleThreads = 1024, kSampleList = 5888, kSampleBoundThreads = 960;

/// Elements that a thread of a selection holds, of up to 32 bits and of 64 (derived: with keys and
/// indices a quarter of the registers that 512 threads may have each), and of a sort. Chosen, not
/// measured.
inline constexpr int64_t kSelectItems = 16, kSelectWideItems = 8, kSortItems = 8;
/// The longest row that a warp selects from, and the most that it selects of rows of up to a
/// quarter of that, and of longer ones. Chosen, not measured.
inline constexpr int64_t kLongestOfWarp = 1024, kMaxOfShort = 256, kMaxOfWarp = 64;
/// The most that are selected from pieces of rows: beyond, what the pieces give is hardly less than
/// what they take. Chosen, not measured.
inline constexpr int64_t kMaxOfPieces = 2048;
/// Blocks for each multiprocessor up to which rows are cut into smaller pieces. Chosen, not
/// measured.
inline constexpr int64_t kPiecesOfProcessor = 4;
/// Seconds of a step that a block takes together, a barrier and what goes with it, and of one of a
/// warp; of a bit of a key of an element that is held; and of a block of a sort, which goes through
/// its piece three times. For predictions. Derived: 250 and 70 cycles, 2 instructions at the rate
/// of a multiprocessor, 2,500 cycles.
inline constexpr double kTeamStepSeconds = 0.15e-6, kWarpStepSeconds = 0.04e-6,
                        kKeyBitSeconds = 1e-11, kSortBlockSeconds = 1.5e-6;

} // namespace tenon::codegen::cuda::tuning
