// Largest element of each window of [batch, height, width, channels], within bounds; padding does
// not count.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t batch, in_h, in_w, channels, out_h, out_w;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
} tn_maximum_shape;

// Rows [begin, end) of each picture; `out` is the first of them. With `places`, rows of the input
// lie there.
static void tn_maximum(const tn_maximum_shape *s, int32_t begin, int32_t end, const int8_t *in,
                       const uint16_t *places, int8_t *out) {
  for (int32_t n = 0; n < s->batch; ++n, in += s->in_h * s->in_w * s->channels) {
    tn_rows image = {in, places, s->in_w * s->channels};
    for (int32_t oy = begin; oy < end; ++oy) {
      for (int32_t ox = 0; ox < s->out_w; ++ox) {
        for (int32_t c = 0; c < s->channels; ++c) {
          int32_t best = -128;
          for (int32_t ky = 0; ky < s->kernel_h; ++ky) {
            int32_t y = oy * s->stride_h - s->pad_h + ky * s->dilation_h;
            for (int32_t kx = 0; kx < s->kernel_w; ++kx) {
              int32_t x = ox * s->stride_w - s->pad_w + kx * s->dilation_w;
              if (y >= 0 && y < s->in_h && x >= 0 && x < s->in_w) {
                int32_t value = in[tn_row(&image, y) + x * s->channels + c];
                best = value > best ? value : best;
              }
            }
          }
          *out++ = (int8_t)best;
        }
      }
    }
  }
}
