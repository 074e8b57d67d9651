// Convolution in which each channel has filters of its own: out_c is a multiple of in_c. Weights
// are [kernel_h, kernel_w, out_c].
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
  int32_t in_zero;    // what padding holds
  int32_t out_zero;   // added behind the rounding
  int32_t low, high;  // bounds of the result
  int32_t scale_step; // 1: a multiplier and shift for each channel; 0: one for all
} tn_depthwise_shape;

static int32_t tn_depthwise_sum(const tn_depthwise_shape *s, const int8_t *channel,
                                const int8_t *filter, int32_t top, int32_t left) {
  int32_t sum = 0;
  for (int32_t ky = 0; ky < s->kernel_h; ++ky) {
    int32_t y = top + ky * s->dilation_h;
    for (int32_t kx = 0; kx < s->kernel_w; ++kx, filter += s->out_c) {
      int32_t x = left + kx * s->dilation_w;
      int isInside = y >= 0 && y < s->in_h && x >= 0 && x < s->in_w;
      sum += *filter * (isInside ? channel[(y * s->in_w + x) * s->in_c] : s->in_zero);
    }
  }
  return sum;
}

static void tn_depthwise(const tn_depthwise_shape *s, const int8_t *in, const int8_t *weights,
                         const int32_t *bias, const int32_t *multiplier, const uint8_t *shift,
                         int8_t *out) {
  int32_t filters = s->out_c / s->in_c;
  for (int32_t n = 0; n < s->batch; ++n, in += s->in_h * s->in_w * s->in_c) {
    for (int32_t y = 0; y < s->out_h; ++y) {
      for (int32_t x = 0; x < s->out_w; ++x) {
        for (int32_t o = 0; o < s->out_c; ++o) {
          int32_t sum =
              bias[o] + tn_depthwise_sum(s, in + o / filters, weights + o,
                                         y * s->stride_h - s->pad_h, x * s->stride_w - s->pad_w);
          int32_t scale = o * s->scale_step;
          int32_t value = tn_requantize((int64_t)sum * multiplier[scale], shift[scale]);
          *out++ = tn_clamp(value + s->out_zero, s->low, s->high);
        }
      }
    }
  }
}
