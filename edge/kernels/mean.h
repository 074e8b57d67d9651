// Mean of a whole picture, one of its rows after the other: their sums lie in memory until the last
// row is there.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t rows, positions, channels; // positions of a row
  int32_t in_zero, out_zero, low, high;
} tn_mean_shape;

static void tn_mean(const tn_mean_shape *s, int32_t row, const int8_t *in,
                    const int32_t *multiplier, const uint8_t *shift, int32_t *sums, int8_t *out) {
  for (int32_t c = 0; c < s->channels; ++c) {
    int32_t sum = row == 0 ? -s->rows * s->positions * s->in_zero : sums[c];
    for (int32_t x = 0; x < s->positions; ++x) {
      sum += in[x * s->channels + c];
    }
    sums[c] = sum;
    if (row == s->rows - 1) {
      int32_t value = tn_requantize(tn_product(sum, *multiplier), *shift);
      out[c] = tn_clamp(value + s->out_zero, s->low, s->high);
    }
  }
}
