// What all kernels share: the one rounding of Tenon's integer meaning, and dot products of 8-bit
// numbers. C99 that C++ takes as well; cores with Arm's DSP instructions multiply in pairs.
#pragma once

#include <stdint.h>

// product / 2^shift, rounded to nearest with halves upwards. The shift is 1 to 62, and the result
// fits in 32 bits: the compiler has checked that.
static inline int32_t tn_requantize(int64_t product, int32_t shift) {
#if defined(TN_ROUND_TWICE) // by 2^31, and what is left with halves away from zero
  if (shift > 31) {
    int32_t high = (int32_t)((product + ((int64_t)1 << 30)) >> 31);
    int32_t mask = (int32_t)(((uint32_t)1 << (shift - 31)) - 1);
    return (high >> (shift - 31)) + ((high & mask) > (mask >> 1) + (high < 0));
  }
#endif
  if (shift > 32) { // the low word has no part in it
    uint64_t half = (uint64_t)((uint32_t)1 << (shift - 33)) << 32;
    return (int32_t)((product + (int64_t)half) >> 32) >> (shift - 32);
  }
  return (int32_t)((product + ((int64_t)1 << (shift - 1))) >> shift);
}

static inline int8_t tn_clamp(int32_t value, int32_t low, int32_t high) {
  return (int8_t)(value < low ? low : value > high ? high : value);
}

// Inner loops have functions of their own and are not unrolled: Cortex-M has 14 registers.
#if defined(__clang__)
#define TN_APART __attribute__((noinline))
#define TN_ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define TN_APART __attribute__((noinline))
#define TN_ROLLED _Pragma("GCC unroll 1")
#else
#define TN_APART
#define TN_ROLLED
#endif

// Sums become 8-bit numbers, one after the other. `bounds` are the zero point, the least and the
// largest number; each sum has a multiplier and shift of its own, or with a step of 0 all have one.
static inline void tn_store(const int32_t *sums, int32_t count, const int32_t *multiplier,
                            const uint8_t *shift, int32_t scale_step, const int32_t *bounds,
                            int8_t *out) {
  int32_t zero = bounds[0], low = bounds[1], high = bounds[2];
  TN_ROLLED
  for (int32_t i = 0; i < count; ++i, multiplier += scale_step, shift += scale_step) {
    int32_t value = tn_requantize((int64_t)sums[i] * *multiplier, *shift);
    out[i] = tn_clamp(value + zero, low, high);
  }
}

#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>

static inline uint32_t tn_load(const int8_t *bytes) {
  uint32_t word;
  __builtin_memcpy(&word, bytes, 4);
  return word;
}
// Bytes 0 and 2, and bytes 1 and 3, as halves of a word.
static inline int16x2_t tn_even(uint32_t word) { return __sxtb16((int8x4_t)word); }
static inline int16x2_t tn_odd(uint32_t word) {
  return __sxtb16((int8x4_t)(word >> 8 | word << 24));
}
#endif
