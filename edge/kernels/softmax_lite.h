// Softmax along rows as TensorFlow Lite Micro computes it: exponentials with 31 bits behind the
// point, by the distance from the largest number of a row; their sum with 19; its inverse by three
// steps of Newton's.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t rows, columns;
} tn_softmax_lite_shape;

// a * b / 2^31, to nearest.
static inline int32_t tn_softmax_times(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

// a * 2^shift, within 32 bits.
static inline int32_t tn_softmax_larger(int32_t a, int32_t shift) {
  int32_t most = (int32_t)(((uint32_t)1 << (31 - shift)) - 1);
  return a > most ? INT32_MAX : a < -most ? INT32_MIN : a * (1 << shift);
}

// a / 2^shift, to nearest with halves away from zero.
static inline int32_t tn_softmax_smaller(int32_t a, int32_t shift) {
  int32_t mask = (int32_t)(((uint32_t)1 << shift) - 1);
  return (a >> shift) + ((a & mask) > (mask >> 1) + (a < 0));
}

// 1 / (1 + a), with 31 bits behind the point; a is from 0 to 1.
static int32_t tn_softmax_inverse(int32_t a) {
  int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) >> 1);
  int32_t x = 1515870810 + tn_softmax_times(half, -1010580540); // 48 / 17 - 32 / 17 * half
  for (int i = 0; i < 3; ++i) {
    int32_t rest = (1 << 29) - tn_softmax_times(half, x);
    x += tn_softmax_larger(tn_softmax_times(x, rest), 2);
  }
  return tn_softmax_larger(x, 1);
}

static void tn_softmax_lite(const tn_softmax_lite_shape *s, const int8_t *in, const int32_t *powers,
                            int8_t *out) {
  for (int32_t row = 0; row < s->rows; ++row, in += s->columns, out += s->columns) {
    int32_t best = tn_largest(in, s->columns);
    uint32_t sum = 0;
    for (int32_t i = 0; i < s->columns; ++i) {
      sum += (uint32_t)tn_softmax_smaller(powers[best - in[i]], 12);
    }
    int32_t shift = 35; // by which a number becomes one of 1/256
    for (; (sum & 0x80000000u) == 0; sum <<= 1) {
      --shift;
    }
    int32_t inverse = tn_softmax_inverse((int32_t)(sum & 0x7fffffffu));
    for (int32_t i = 0; i < s->columns; ++i) {
      int32_t part = tn_softmax_times(inverse, powers[best - in[i]]);
      out[i] = tn_clamp(tn_softmax_smaller(part, shift) - 128, -128, 127);
    }
  }
}
