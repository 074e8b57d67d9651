// Product of two tensors, element by element; of the second, each of `period` elements meets
// `inner` neighbours, again and again.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t count, period, inner, a_zero, b_zero, multiplier, shift, out_zero, low, high;
} tn_mul_shape;

static void tn_mul(const tn_mul_shape *s, const int8_t *a, const int8_t *b, int8_t *out) {
  for (int32_t i = 0, j = 0, k = 0; i < s->count; ++i) {
    int32_t product = (a[i] - s->a_zero) * (b[j] - s->b_zero);
    int32_t value = tn_requantize(tn_product(product, s->multiplier), s->shift);
    out[i] = tn_clamp(value + s->out_zero, s->low, s->high);
    if (++k == s->inner) {
      k = 0;
      j = j + 1 == s->period ? 0 : j + 1;
    }
  }
}
