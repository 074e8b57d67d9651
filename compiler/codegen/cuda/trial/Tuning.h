// The numbers that tune it, each with its unit and source.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Threads of a block, its own choice first: chosen, not measured.
inline constexpr int64_t kTrialThreads[] = {256, 128, 512};

} // namespace tenon::codegen::cuda::tuning
