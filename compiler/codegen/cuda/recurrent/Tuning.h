// The numbers that tune recurrent layers, each with its unit and where it comes from.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Weights of 32 bits that a thread holds through all steps, and threads of a block then: two
/// thirds of a multiprocessor's registers (derived).
inline constexpr int64_t kHeldWeights = 80, kHeldThreads = 512;
/// Threads of a block that reads its weights again in each step: as many loads on the way as can
/// be. Chosen, not measured.
inline constexpr int64_t kReadThreads = 1024;
/// Blocks of a cluster at most. Chosen, not measured.
inline constexpr int64_t kMaxClusterBlocks = 8;
/// Seconds of a step apart from the weights: barriers, the way through shared memory, gates.
/// Chosen, not measured.
inline constexpr double kStepSeconds = 1e-6;

} // namespace tenon::codegen::cuda::tuning
