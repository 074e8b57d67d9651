// Mean of each window of [batch, height, width, channels]. A window at a border counts `least`
// elements or more; multipliers and shifts divide by each number from there on.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t batch, in_h, in_w, channels, out_h, out_w;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  int32_t counted; // elements that a window counts, 0: those inside
  int32_t least;
  int32_t in_zero, out_zero, low, high;
} tn_average_shape;

// Rows [begin, end) of each picture; `out` is the first of them. With `places`, rows of the input
// lie there.
static void tn_average(const tn_average_shape *s, int32_t begin, int32_t end, const int8_t *in,
                       const uint16_t *places, const int32_t *multiplier, const uint8_t *shift,
                       int8_t *out) {
  for (int32_t n = 0; n < s->batch; ++n, in += s->in_h * s->in_w * s->channels) {
    tn_rows image = {in, places, s->in_w * s->channels};
    for (int32_t oy = begin; oy < end; ++oy) {
      int32_t top, bottom, left, right;
      tn_inside(oy * s->stride_h - s->pad_h, s->kernel_h, s->in_h, &top, &bottom);
      for (int32_t ox = 0; ox < s->out_w; ++ox) {
        tn_inside(ox * s->stride_w - s->pad_w, s->kernel_w, s->in_w, &left, &right);
        int32_t inside = (bottom - top) * (right - left);
        int32_t scale = (s->counted ? s->counted : inside) - s->least;
        for (int32_t c = 0; c < s->channels; ++c) {
          int32_t sum = -inside * s->in_zero;
          for (int32_t y = top; y < bottom; ++y) {
            const int8_t *row = in + tn_row(&image, y) + c;
            for (int32_t x = left; x < right; ++x) {
              sum += row[x * s->channels];
            }
          }
          int32_t value = tn_requantize(tn_product(sum, multiplier[scale]), shift[scale]);
          *out++ = tn_clamp(value + s->out_zero, s->low, s->high);
        }
      }
    }
  }
}
