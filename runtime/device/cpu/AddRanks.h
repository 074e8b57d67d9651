// The arithmetic of an all-reduce on a CPU.

#pragma once

#include "support/DType.h"

#include <cstdint>
#include <span>

namespace tenon::runtime {

/// Elements [begin, end) of the sum of `parts`: added in their order in f32 (f64 in f64) and
/// rounded once.
void addRanks(DType type, std::span<const void *const> parts, void *to, int64_t begin, int64_t end);

} // namespace tenon::runtime
