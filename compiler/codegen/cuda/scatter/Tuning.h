// The numbers that tune scatters, each with its unit and where it comes from.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Threads of a block, and vectors of 16 bytes that a thread copies. Chosen, not measured.
inline constexpr int64_t kScatterThreads = 256, kCopiedVectors = 4;

} // namespace tenon::codegen::cuda::tuning
