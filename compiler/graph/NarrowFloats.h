// Arrays of f32 as 16-bit floats, rounded to nearest even: how weights become narrow.
// Relies on nothing of MLIR; loops are branch-free, so that they are vectorized.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::tn {

/// Largest finite values of both formats.
inline constexpr double kLargestHalf = 65504;
inline constexpr double kLargestBFloat = 0x1.FEp127;

/// Finite numbers beyond the format's largest become that largest; infinities and NaN stay what
/// they are. `from` may be unaligned.
void narrowToHalf(const void *from, uint16_t *to, size_t count);
void narrowToBFloat(const void *from, uint16_t *to, size_t count);

} // namespace tenon::tn
