// Convolution in which each channel has filters of its own: out_c is a multiple of in_c. Weights
// are [kernel_h, kernel_w, out_c]. With one filter a channel, four channels are multiplied at once.
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

// One filter.
static int32_t tn_depthwise_sum(const tn_depthwise_shape *s, const tn_rows *image, int32_t channel,
                                const int8_t *filter, int32_t top, int32_t left) {
  int32_t sum = 0;
  for (int32_t ky = 0; ky < s->kernel_h; ++ky) {
    int32_t y = top + ky * s->dilation_h;
    for (int32_t kx = 0; kx < s->kernel_w; ++kx, filter += s->out_c) {
      int32_t x = left + kx * s->dilation_w;
      int isInside = y >= 0 && y < s->in_h && x >= 0 && x < s->in_w;
      const int8_t *in = image->bytes + channel;
      sum += *filter * (isInside ? in[tn_row(image, y) + x * s->in_c] : s->in_zero);
    }
  }
  return sum;
}

#define TN_TAPS 64

// The taps of a position: where the input and the filter are, for those inside; behind them where
// the filter is, for those in the padding.
typedef struct {
  int32_t inside, outside;
  int32_t places[2 * TN_TAPS];
} tn_depthwise_taps;

static TN_APART void tn_depthwise_find(const tn_depthwise_shape *s, const tn_rows *image,
                                       int32_t top, int32_t left, tn_depthwise_taps *taps) {
  int32_t *end = taps->places + 2 * s->kernel_h * s->kernel_w, filter = 0;
  taps->inside = taps->outside = 0;
  for (int32_t ky = 0; ky < s->kernel_h; ++ky) {
    int32_t y = top + ky * s->dilation_h;
    for (int32_t kx = 0; kx < s->kernel_w; ++kx, filter += s->out_c) {
      int32_t x = left + kx * s->dilation_w;
      if (y >= 0 && y < s->in_h && x >= 0 && x < s->in_w) {
        taps->places[2 * taps->inside] = tn_row(image, y) + x * s->in_c;
        taps->places[2 * taps->inside++ + 1] = filter;
      } else {
        *--end = filter;
        ++taps->outside;
      }
    }
  }
}

// Four channels that lie side by side.
static TN_APART void tn_depthwise_sums(const tn_depthwise_taps *taps, int32_t count, int32_t zero,
                                       const int8_t *channels, const int8_t *filter,
                                       int32_t *sums) {
  int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
  const int32_t *place = taps->places, *end = place + 2 * taps->inside;
  TN_ROLLED
  for (; place != end; place += 2) {
    const int8_t *x = channels + place[0], *w = filter + place[1];
#if defined(__ARM_FEATURE_DSP)
    uint32_t xs = tn_load(x), ws = tn_load(w);
    a = __smlabb(tn_even(xs), tn_even(ws), a);
    c = __smlatt(tn_even(xs), tn_even(ws), c);
    b = __smlabb(tn_odd(xs), tn_odd(ws), b);
    d = __smlatt(tn_odd(xs), tn_odd(ws), d);
#else
    a += x[0] * w[0];
    b += x[1] * w[1];
    c += x[2] * w[2];
    d += x[3] * w[3];
#endif
  }
  if (zero != 0) {
    place = taps->places + 2 * count - taps->outside;
    end = place + taps->outside;
    TN_ROLLED
    for (; place != end; ++place) {
      const int8_t *w = filter + *place;
      a += zero * w[0];
      b += zero * w[1];
      c += zero * w[2];
      d += zero * w[3];
    }
  }
  sums[0] = a;
  sums[1] = b;
  sums[2] = c;
  sums[3] = d;
}

// Rows [begin, end) of each picture; `out` is the first of them. With `places`, rows of the input
// lie there.
static void tn_depthwise(const tn_depthwise_shape *s, int32_t begin, int32_t end, const int8_t *in,
                         const uint16_t *places, const int8_t *weights, const int32_t *bias,
                         const int32_t *multiplier, const uint8_t *shift, int8_t *out) {
  int32_t filters = s->out_c / s->in_c, kernel = s->kernel_h * s->kernel_w;
  int32_t most = filters == 1 && kernel <= TN_TAPS ? 4 : 1;
  int32_t scale_step = s->scale_step, bounds[3] = {s->out_zero, s->low, s->high};
  tn_depthwise_taps taps;
  for (int32_t n = 0; n < s->batch; ++n, in += s->in_h * s->in_w * s->in_c) {
    tn_rows image = {in, places, s->in_w * s->in_c};
    for (int32_t y = begin; y < end; ++y) {
      for (int32_t x = 0; x < s->out_w; ++x) {
        int32_t top = y * s->stride_h - s->pad_h, left = x * s->stride_w - s->pad_w;
        if (most == 4) {
          tn_depthwise_find(s, &image, top, left, &taps);
        }
        for (int32_t o = 0, count; o < s->out_c; o += count, out += count) {
          count = o + most <= s->out_c ? most : 1;
          int32_t sums[4] = {bias[o], 0, 0, 0};
          if (count == 4) {
            sums[1] = bias[o + 1];
            sums[2] = bias[o + 2];
            sums[3] = bias[o + 3];
            tn_depthwise_sums(&taps, kernel, s->in_zero, in + o, weights + o, sums);
          } else {
            sums[0] += tn_depthwise_sum(s, &image, o / filters, weights + o, top, left);
          }
          tn_store(sums, count, multiplier + o * scale_step, shift + o * scale_step, scale_step,
                   bounds, out);
        }
      }
    }
  }
}
