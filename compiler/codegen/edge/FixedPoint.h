// The integer meaning of a factor between two scales (docs/adr/0039): a whole number of 31 bits and
// a shift to the right, with one rounding to nearest, halves upwards.
#pragma once

#include <cstdint>
#include <optional>

namespace tenon::codegen::edge {

/// value / 2^shift; shift is 1 to 62.
struct FixedPoint {
  int32_t value = 0;
  int32_t shift = 1;
};

/// The nearest one, with all 31 bits where |factor| is 2^-31 or more. None for 2^30 or more, and
/// for what is no number.
std::optional<FixedPoint> fixedPoint(double factor);

/// The multiplier of a factor that shares the shift of a larger one.
int32_t withShift(double factor, int32_t shift);

} // namespace tenon::codegen::edge
