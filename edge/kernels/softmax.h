// Softmax along rows. The exponential of -scale * d is the product of two entries of a table with
// 15 bits behind the point: one for d / 16, one for d % 16. No number has more than 32 bits.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t rows, columns;
  int32_t factor, shift; // 2^shift divided by the scale of the result
  int32_t out_zero, low, high;
} tn_softmax_shape;

static inline uint32_t tn_softmax_power(const uint16_t *powers, int32_t distance) {
  return ((uint32_t)powers[distance >> 4] * powers[16 + (distance & 15)] + (1u << 14)) >> 15;
}

static void tn_softmax(const tn_softmax_shape *s, const int8_t *in, const uint16_t *powers,
                       int8_t *out) {
  for (int32_t row = 0; row < s->rows; ++row, in += s->columns, out += s->columns) {
    int32_t best = tn_largest(in, s->columns);
    uint32_t sum = 0;
    for (int32_t i = 0; i < s->columns; ++i) {
      sum += tn_softmax_power(powers, best - in[i]);
    }
    sum <<= s->shift;
    for (int32_t i = 0; i < s->columns; ++i) {
      uint32_t part = tn_softmax_power(powers, best - in[i]) * (uint32_t)s->factor;
      out[i] = tn_clamp((int32_t)tn_quotient(part + sum / 2, sum) + s->out_zero, s->low, s->high);
    }
  }
}
