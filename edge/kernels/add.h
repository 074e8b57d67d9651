// Sum or difference of two tensors of any scales; of the second, each of `period` elements meets
// `inner` neighbours, again and again. Both multipliers have the same shift, so that there is one
// rounding.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t count, period, inner, a_zero, b_zero, a_multiplier, b_multiplier, shift, out_zero, low,
      high;
} tn_add_shape;

// Multipliers are 2^15 * high + low, so that 32 bits hold products and their sums: what the low
// parts have above 2^15 is added to the sum of the high ones, and the rest has no part in the
// result. Needs a shift of 16 to 46.
#if !defined(TN_ROUND_TWICE)
#define TN_ADD_PARTS

typedef struct {
  int32_t a_zero, b_zero, a_high, a_low, b_high, b_low, half, shift, out_zero, low, high;
} tn_add_parts;

static inline int32_t tn_add_one(const tn_add_parts *p, int32_t a, int32_t b) {
  a -= p->a_zero;
  b -= p->b_zero;
  int32_t below = (a * p->a_low + b * p->b_low) >> 15;
  return (a * p->a_high + b * p->b_high + below + p->half) >> p->shift;
}

// Neighbours; the next of b is `b_step` behind.
static TN_APART void tn_add_run(const tn_add_parts *parts, const int8_t *a, const int8_t *b,
                                int32_t b_step, int32_t count, int8_t *out) {
  tn_add_parts p = *parts;
#if defined(TN_MVE)
  for (; b_step == 1 && count > 0; count -= 4, a += 4, b += 4, out += 4) {
    mve_pred16_t some = vctp32q((uint32_t)count);
    int32x4_t x = vsubq_n_s32(vldrbq_z_s32(a, some), p.a_zero);
    int32x4_t y = vsubq_n_s32(vldrbq_z_s32(b, some), p.b_zero);
    int32x4_t below = vmlaq_n_s32(vmulq_n_s32(x, p.a_low), y, p.b_low);
    int32x4_t sum = vmlaq_n_s32(vmulq_n_s32(x, p.a_high), y, p.b_high);
    sum = vaddq_n_s32(vaddq_s32(sum, vshrq_n_s32(below, 15)), p.half);
    sum = vaddq_n_s32(vshlq_r_s32(sum, -p.shift), p.out_zero);
    sum = vminq_s32(vmaxq_s32(sum, vdupq_n_s32(p.low)), vdupq_n_s32(p.high));
    vstrbq_p_s32(out, sum, some);
  }
#endif
  TN_ROLLED
  for (; count > 0; --count, b += b_step) {
    *out++ = tn_clamp(tn_add_one(&p, *a++, *b) + p.out_zero, p.low, p.high);
  }
}
#endif

static void tn_add(const tn_add_shape *s, const int8_t *a, const int8_t *b, int8_t *out) {
#if defined(TN_ADD_PARTS)
  if (s->shift >= 16 && s->shift <= 46) {
    tn_add_parts p = {s->a_zero,
                      s->b_zero,
                      s->a_multiplier >> 15,
                      s->a_multiplier & 0x7fff,
                      s->b_multiplier >> 15,
                      s->b_multiplier & 0x7fff,
                      (int32_t)((uint32_t)1 << (s->shift - 16)),
                      s->shift - 15,
                      s->out_zero,
                      s->low,
                      s->high};
    int32_t b_step = s->inner == 1, run = b_step ? s->period : s->inner;
    for (int32_t i = 0, j = 0; i < s->count; i += run, a += run, out += run) {
      tn_add_run(&p, a, b + j, b_step, run, out);
      j = b_step || j + 1 == s->period ? 0 : j + 1;
    }
    return;
  }
#endif
  for (int32_t i = 0, j = 0, k = 0; i < s->count; ++i) {
    int64_t sum = tn_product(a[i] - s->a_zero, s->a_multiplier) +
                  tn_product(b[j] - s->b_zero, s->b_multiplier);
    out[i] = tn_clamp(tn_requantize(sum, s->shift) + s->out_zero, s->low, s->high);
    if (++k == s->inner) {
      k = 0;
      j = j + 1 == s->period ? 0 : j + 1;
    }
  }
}
