// Sum or difference of two tensors as TensorFlow Lite Micro computes it: each operand is brought to
// twice the larger scale with 20 bits behind the point, and their sum to that of the result. Of the
// second, each of `period` elements meets `inner` neighbours, again and again.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t count, period, inner, a_zero, b_zero;
  int32_t a_multiplier, a_shift, b_multiplier, b_shift;
  int32_t b_sign; // -1 for a difference
  int32_t multiplier, shift, out_zero, low, high;
} tn_add_lite_shape;

static void tn_add_lite(const tn_add_lite_shape *s, const int8_t *a, const int8_t *b, int8_t *out) {
  const int32_t one = 1 << 20;
  for (int32_t i = 0, j = 0, k = 0; i < s->count; ++i) {
    int32_t x = tn_requantize((int64_t)((a[i] - s->a_zero) * one) * s->a_multiplier, s->a_shift);
    int32_t y = tn_requantize((int64_t)((b[j] - s->b_zero) * one) * s->b_multiplier, s->b_shift);
    int32_t value = tn_requantize((int64_t)(x + s->b_sign * y) * s->multiplier, s->shift);
    out[i] = tn_clamp(value + s->out_zero, s->low, s->high);
    if (++k == s->inner) {
      k = 0;
      j = j + 1 == s->period ? 0 : j + 1;
    }
  }
}
