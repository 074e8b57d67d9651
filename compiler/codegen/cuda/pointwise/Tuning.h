// The numbers that tune pointwise kernels, each with its unit and where it comes from; how threads
// share elements is in dispatch/ElementwiseLaunchConfig, since the cost model counts by it.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// How often an element may be computed again before storing it is better: one that costs a few
/// instructions, one with functions in it, one that sums. Chosen, not measured.
inline constexpr double kCheap = 16, kCostly = 2, kReduced = 1;
/// Reads of an element by a loop nest of lengths that are not known; and what a read by one of
/// known lengths counts, since a nest has fewer threads than another kernel to sum what it reads.
/// Chosen, not measured.
inline constexpr double kNestReads = 64, kNestRead = 1.5;
/// Threads of a block: of a loop nest, and of one that all parts of a bundle can work with. Chosen,
/// not measured.
inline constexpr unsigned kNestThreads = 64, kBundleThreads = 128;
/// Elements of a transposed tile along both dims (derived: a warp, whose accesses are whole lines
/// both ways), rows of it that a block covers at once, and the length of a dim below which most of
/// a tile would be wasted (derived: half a tile).
inline constexpr int64_t kTransposeTile = 32, kTransposeRows = 8, kShortestTurned = 16;

/// What the loop of a product in one thread reaches of the FP32 peak: 0.25 to 0.55 TFLOP/s of 60 on
/// an H200, for its prediction.
inline constexpr double kLoopShare = 0.007;

/// Seconds of an element of a row that a thread reads alone, for its prediction: 0.08 to 0.15 us of
/// rows of 96 to 768 on an H200.
inline constexpr double kRowElementSeconds = 0.13e-6;

/// Seconds of an update that a thread of a loop nest writes behind another one: three accesses that
/// wait for each other. Derived: 500 cycles.
inline constexpr double kNestStepSeconds = 0.3e-6;

} // namespace tenon::codegen::cuda::tuning
