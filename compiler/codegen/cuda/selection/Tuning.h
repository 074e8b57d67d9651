// The numbers that tune selections, each with its unit and where it comes from.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Threads of a block, which works alone: half of what a block may have. Chosen, not measured.
inline constexpr int64_t kSelectionThreads = 512;

} // namespace tenon::codegen::cuda::tuning
