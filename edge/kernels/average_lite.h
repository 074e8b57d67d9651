// Mean of each window of [batch, height, width, channels] as TensorFlow Lite Micro computes it: of
// the numbers as they are, with halves away from zero. The result has the operand's scale.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t batch, in_h, in_w, channels, out_h, out_w;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  int32_t low, high;
} tn_average_lite_shape;

// `inverse` has the bits of 2^32 / n rounded up, for each number n of elements from 2 on.
// Rows [begin, end) of each picture; `out` is the first of them. With `places`, rows of the input
// lie there.
static void tn_average_lite(const tn_average_lite_shape *s, int32_t begin, int32_t end,
                            const int8_t *in, const uint16_t *places, const int32_t *inverse,
                            int8_t *out) {
  for (int32_t n = 0; n < s->batch; ++n, in += s->in_h * s->in_w * s->channels) {
    tn_rows image = {in, places, s->in_w * s->channels};
    for (int32_t oy = begin; oy < end; ++oy) {
      int32_t top, bottom, left, right;
      tn_inside(oy * s->stride_h - s->pad_h, s->kernel_h, s->in_h, &top, &bottom);
      for (int32_t ox = 0; ox < s->out_w; ++ox) {
        tn_inside(ox * s->stride_w - s->pad_w, s->kernel_w, s->in_w, &left, &right);
        int32_t inside = (bottom - top) * (right - left);
        for (int32_t c = 0; c < s->channels; ++c) {
          int32_t sum = 0;
          for (int32_t y = top; y < bottom; ++y) {
            for (int32_t x = left; x < right; ++x) {
              sum += in[tn_row(&image, y) + x * s->channels + c];
            }
          }
          uint32_t size = (uint32_t)((sum < 0 ? -sum : sum) + inside / 2);
          if (inside > 1) {
            size = (uint32_t)(((uint64_t)size * (uint32_t)inverse[inside - 2]) >> 32);
          }
          *out++ = tn_clamp(sum < 0 ? -(int32_t)size : (int32_t)size, s->low, s->high);
        }
      }
    }
  }
}
