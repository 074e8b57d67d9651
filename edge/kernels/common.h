// What all kernels share: the one rounding of Tenon's integer meaning. C99 that C++ takes as well.
#pragma once

#include <stdint.h>

// a * multiplier / 2^shift, rounded to nearest with halves upwards. The multiplier has 31 bits, the
// shift is 1 to 62, and the result fits in 32 bits: the compiler has checked that.
static inline int32_t tn_requantize(int64_t product, int32_t shift) {
  return (int32_t)((product + ((int64_t)1 << (shift - 1))) >> shift);
}

static inline int8_t tn_clamp(int32_t value, int32_t low, int32_t high) {
  return (int8_t)(value < low ? low : value > high ? high : value);
}
