// Whether a GPU multiplies 8-bit floats and converts to them in one instruction: from sm_89 on.
#pragma once

#include "compiler/target/Target.h"

namespace tenon::target {

inline bool hasFloat8(const Target &target) { return target.isGpu() && target.arch->number >= 89; }

/// One that does, for tools and tests.
inline const Target &float8Target() { return targetOf("sm_90a"); }

/// How much faster a library's products of 8-bit floats are than those of f16, where operations
/// take the time: all products of 24 layers of BERT-large (64 sequences of 384) on an H100, 21.1
/// and 12.7 ms by torch 2.11.
inline constexpr double kFloat8Speed = 1.65;

/// Seconds that a product must gain: what quantizing costs in the kernel before, and what cuBLASLt
/// takes longer for small ones. BERT-base with 32 sequences of 128 gains nothing (torch 2.11,
/// H100).
inline constexpr double kFloat8Seconds = 12e-6;

} // namespace tenon::target
