// A copy of four dims between any strides: transposes, slices, parts of a concatenation, the inside
// of a pad, broadcasts.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t size_0, size_1, size_2, size_3;
  int32_t in_offset, in_0, in_1, in_2, in_3;
  int32_t out_offset, out_0, out_1, out_2, out_3;
} tn_move_shape;

static void tn_move(const tn_move_shape *s, const int8_t *in, int8_t *out) {
  in += s->in_offset;
  out += s->out_offset;
  for (int32_t a = 0; a < s->size_0; ++a) {
    for (int32_t b = 0; b < s->size_1; ++b) {
      for (int32_t c = 0; c < s->size_2; ++c) {
        const int8_t *from = in + a * s->in_0 + b * s->in_1 + c * s->in_2;
        int8_t *to = out + a * s->out_0 + b * s->out_1 + c * s->out_2;
        for (int32_t d = 0; d < s->size_3; ++d) {
          to[d * s->out_3] = from[d * s->in_3];
        }
      }
    }
  }
}
