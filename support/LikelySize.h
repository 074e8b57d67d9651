// The size that a free dim most likely has: the one rule for what is shown and measured where the
// user names no size. One of a batch, 128 of all else (tokens), or what is nearest of those
// allowed.

#pragma once

#include <algorithm>
#include <cstdint>

namespace tenon {

inline constexpr int64_t kLikelyBatch = 1, kLikelyLength = 128;

/// `dim` is where the size stands in the first input that has it; dim 0 is a batch.
inline int64_t likelySize(uint32_t dim, int64_t min, int64_t max) {
  return std::clamp(dim == 0 ? kLikelyBatch : kLikelyLength, min, max);
}

} // namespace tenon
