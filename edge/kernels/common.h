// What all kernels share: the one rounding of Tenon's integer meaning, and what cores have for
// 8-bit numbers. C99 that C++ takes as well. Cores with Arm's DSP instructions multiply in pairs,
// those with MVE sixteen at once; the bytes are the same.
#pragma once

#include <stdint.h>

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)
#define TN_MVE
#include <arm_mve.h>
#elif defined(__ARM_FEATURE_DSP)
#define TN_DSP
#include <arm_acle.h>
#endif

// Inner loops have functions of their own and are not unrolled: Cortex-M has 14 registers.
#if defined(__clang__)
#define TN_APART __attribute__((noinline, unused))
#define TN_BARRIER __asm__ volatile("" ::: "memory");
#define TN_ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define TN_APART __attribute__((noinline, unused))
#define TN_BARRIER __asm__ volatile("" ::: "memory");
#define TN_ROLLED _Pragma("GCC unroll 1")
#else
#define TN_APART
#define TN_BARRIER
#define TN_ROLLED
#endif

// product / 2^shift, rounded to nearest with halves upwards. The shift is 1 to 62, and the result
// fits in 32 bits: the compiler has checked that. Words are shifted apart, since a Cortex-M0 would
// call a library for the whole.
static inline int32_t tn_requantize(int64_t product, int32_t shift) {
#if defined(TN_ROUND_TWICE) // by 2^31, and what is left with halves away from zero
  if (shift > 31) {
    int32_t high = (int32_t)((product + ((int64_t)1 << 30)) >> 31);
    int32_t mask = (int32_t)(((uint32_t)1 << (shift - 31)) - 1);
    return (high >> (shift - 31)) + ((high & mask) > (mask >> 1) + (high < 0));
  }
#endif
  if (shift > 32) { // the low word has no part in it
    return (((int32_t)(product >> 32) >> (shift - 33)) + 1) >> 1;
  }
  uint64_t sum = (uint64_t)product + ((uint32_t)1 << (shift - 1));
  uint32_t low = (uint32_t)sum, high = (uint32_t)(sum >> 32);
  return (int32_t)(shift == 32 ? high : low >> shift | high << (32 - shift));
}

// The same where most shifts are above 32, with the others out of the way.
static TN_APART int32_t tn_requantize_seldom(int64_t product, int32_t shift) {
  return tn_requantize(product, shift);
}

#if defined(__thumb__) && !defined(__ARM_FEATURE_IDIV) // a Cortex-M0: no library is called
static TN_APART int64_t tn_product(int32_t a, int32_t b) {
  uint32_t low_a = (uint32_t)a & 0xffffu, low_b = (uint32_t)b & 0xffffu;
  int32_t high_a = a >> 16, high_b = b >> 16;
  int32_t left = high_a * (int32_t)low_b, right = (int32_t)low_a * high_b;
  uint32_t low = low_a * low_b, first = low + ((uint32_t)left << 16);
  uint32_t second = first + ((uint32_t)right << 16);
  int32_t high = high_a * high_b + (left >> 16) + (right >> 16) + (first < low) + (second < first);
  return (int64_t)((uint64_t)(uint32_t)high << 32 | second);
}

static TN_APART uint32_t tn_quotient(uint32_t a, uint32_t b) {
  uint32_t quotient = 0, rest = 0;
  for (int32_t bit = 31; bit >= 0; --bit) {
    rest = rest << 1 | (a >> bit & 1);
    if (rest >= b) {
      rest -= b;
      quotient |= (uint32_t)1 << bit;
    }
  }
  return quotient;
}
#else
static inline int64_t tn_product(int32_t a, int32_t b) { return (int64_t)a * b; }
static inline uint32_t tn_quotient(uint32_t a, uint32_t b) { return a / b; }
#endif

static inline int8_t tn_clamp(int32_t value, int32_t low, int32_t high) {
  return (int8_t)(value < low ? low : value > high ? high : value);
}

// The part of `size` places from `start` on that lies in [0, limit).
static inline void tn_inside(int32_t start, int32_t size, int32_t limit, int32_t *begin,
                             int32_t *end) {
  *begin = start < 0 ? 0 : start;
  *end = start + size > limit ? limit : start + size;
}

static inline int32_t tn_largest(const int8_t *in, int32_t count) {
  int32_t best = -128;
  for (int32_t i = 0; i < count; ++i) {
    best = in[i] > best ? in[i] : best;
  }
  return best;
}

// Rows of a picture: `stride` bytes apart, or each at its place, in units of 4 bytes.
typedef struct {
  const int8_t *bytes;
  const uint16_t *places;
  int32_t stride;
} tn_rows;

static inline int32_t tn_row(const tn_rows *rows, int32_t y) {
  return rows->places ? 4 * rows->places[y] : y * rows->stride;
}

// How sums become 8-bit numbers: the zero point, the least and the largest number; each sum has a
// multiplier and shift of its own, or with a step of 0 all have one.
typedef struct {
  int32_t zero, low, high, step;
  int32_t isFast; // all shifts are above 32, as those of factors below a quarter are
} tn_rounding;

static TN_APART tn_rounding tn_rounding_of(int32_t zero, int32_t low, int32_t high, int32_t step,
                                           const uint8_t *shift, int32_t count) {
  tn_rounding made = {zero, low, high, step, 0};
#if defined(TN_MVE) && !defined(TN_ROUND_TWICE)
  int32_t least = 255;
  TN_ROLLED
  for (int32_t i = 0; i < (step ? count : 1); ++i) {
    least = shift[i] < least ? shift[i] : least;
  }
  made.isFast = least > 32;
#else
  (void)shift;
  (void)count;
#endif
  return made;
}

#if defined(TN_MVE)
static inline void tn_store_4(int32x4_t sums, int32x4_t factors, uint32x4_t shifts,
                              const tn_rounding *r, int8_t *out, mve_pred16_t some) {
  int32x4_t behind = vsubq_s32(vdupq_n_s32(32), vreinterpretq_s32_u32(shifts));
  int32x4_t value = vaddq_n_s32(vrshlq_s32(vmulhq_s32(sums, factors), behind), r->zero);
  value = vminq_s32(vmaxq_s32(value, vdupq_n_s32(r->low)), vdupq_n_s32(r->high));
  vstrbq_p_s32(out, value, some);
}

static TN_APART void tn_store_fast(const int32_t *sums, int32_t count, const int32_t *multiplier,
                                   const uint8_t *shift, const tn_rounding *r, int8_t *out) {
  if (r->step != 0) {
    for (; count > 0; count -= 4, sums += 4, multiplier += 4, shift += 4, out += 4) {
      mve_pred16_t some = vctp32q((uint32_t)count);
      tn_store_4(vldrwq_z_s32(sums, some), vldrwq_z_s32(multiplier, some),
                 vldrbq_z_u32(shift, some), r, out, some);
    }
    return;
  }
  int32x4_t factors = vdupq_n_s32(*multiplier);
  uint32x4_t shifts = vdupq_n_u32(*shift);
  for (; count > 0; count -= 4, sums += 4, out += 4) {
    mve_pred16_t some = vctp32q((uint32_t)count);
    tn_store_4(vldrwq_z_s32(sums, some), factors, shifts, r, out, some);
  }
}
#endif

static TN_APART void tn_store_each(const int32_t *sums, int32_t count, const int32_t *multiplier,
                                   const uint8_t *shift, const tn_rounding *r, int8_t *out) {
  int32_t zero = r->zero, low = r->low, high = r->high, step = r->step;
  const int32_t *end = sums + count;
#if defined(TN_DSP)
  int32_t isFull = low <= -128 && high >= 127;
#endif
  TN_ROLLED
  for (; sums != end; ++sums, multiplier += step, shift += step) {
    int64_t product = tn_product(*sums, *multiplier);
    int32_t value =
        *shift > 32 ? tn_requantize(product, *shift) : tn_requantize_seldom(product, *shift);
#if defined(TN_DSP)
    if (isFull) {
      *out++ = (int8_t)__ssat(value + zero, 8);
      continue;
    }
#endif
    *out++ = tn_clamp(value + zero, low, high);
  }
}

// Sums become 8-bit numbers, one after the other. `first` is the first sum's place among the
// multipliers.
static inline void tn_store(const int32_t *sums, int32_t count, const int32_t *multiplier,
                            const uint8_t *shift, int32_t first, const tn_rounding *r,
                            int8_t *out) {
  multiplier += first * r->step;
  shift += first * r->step;
#if defined(TN_MVE)
  if (r->isFast) {
    tn_store_fast(sums, count, multiplier, shift, r, out);
    return;
  }
#endif
  tn_store_each(sums, count, multiplier, shift, r, out);
}

#if defined(TN_DSP)
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

static TN_APART void tn_copy(int8_t *to, const int8_t *from, int32_t count) {
  const int8_t *end = from + count;
#if defined(TN_MVE)
  for (; count > 0; count -= 16, to += 16, from += 16) {
    mve_pred16_t some = vctp8q((uint32_t)count);
    vstrbq_p_s8(to, vldrbq_z_s8(from, some), some);
  }
  (void)end;
#else
#if defined(TN_DSP)
  const int8_t *words = from + (count & ~3);
  TN_ROLLED
  for (; from != words; from += 4, to += 4) {
    __builtin_memcpy(to, from, 4);
  }
#endif
  TN_ROLLED
  for (; from != end; ++from, ++to) {
    *to = *from;
  }
#endif
}
