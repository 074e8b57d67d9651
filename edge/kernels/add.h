// Sum or difference of two tensors of any scales; of the second, each of `period` elements meets
// `inner` neighbours, again and again. Both multipliers have the same shift, so that there is one
// rounding.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t count, period, inner, a_zero, b_zero, a_multiplier, b_multiplier, shift, out_zero, low,
      high;
} tn_add_shape;

static void tn_add(const tn_add_shape *s, const int8_t *a, const int8_t *b, int8_t *out) {
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
