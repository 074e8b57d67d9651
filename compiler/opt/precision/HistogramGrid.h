// The grid of the observers' histograms (`tn.histogram`): bins by the highest bits of an f32, sign,
// exponent and 4 bits of mantissa. It fits any range, so that counts of several runs add up.
#pragma once

#include <cstdint>

namespace tenon::opt {

inline constexpr int64_t kHistogramBits = 13;
inline constexpr int64_t kHistogramBins = int64_t{1} << kHistogramBits;

} // namespace tenon::opt
