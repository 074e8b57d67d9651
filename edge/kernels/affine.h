// multiplier * x + offset: another scale, and sums and products with constants. Each of `period`
// constants meets `inner` neighbours, again and again.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t count, period, inner, in_zero, shift, out_zero, low, high;
} tn_affine_shape;

static void tn_affine(const tn_affine_shape *s, const int8_t *in, const int32_t *multiplier,
                      const int64_t *offset, int8_t *out) {
  for (int32_t i = 0, j = 0, k = 0; i < s->count; ++i) {
    int64_t sum = tn_product(in[i] - s->in_zero, multiplier[j]) + offset[j];
    out[i] = tn_clamp(tn_requantize(sum, s->shift) + s->out_zero, s->low, s->high);
    if (++k == s->inner) {
      k = 0;
      j = j + 1 == s->period ? 0 : j + 1;
    }
  }
}
