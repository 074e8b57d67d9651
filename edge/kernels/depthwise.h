// Convolution in which each channel has filters of its own: out_c is a multiple of in_c. Weights
// are [kernel_h, kernel_w, out_c]. With one filter a channel, channels side by side are multiplied
// at once.
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
#define TN_CHANNELS 64 // whose sums are kept before they are stored
#if defined(TN_MVE)
#define TN_SIDE 8 // channels at once
#else
#define TN_SIDE 4
#endif

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

#if defined(TN_MVE)
// Sums of even channels, and of odd ones.
static inline int32x4x2_t tn_depthwise_side(int32x4x2_t sums, int16x8_t x, int16x8_t w) {
  sums.val[0] = vaddq_s32(sums.val[0], vmullbq_int_s16(x, w));
  sums.val[1] = vaddq_s32(sums.val[1], vmulltq_int_s16(x, w));
  return sums;
}
#endif

// The sums of TN_SIDE channels, and again of the next, `sides` times.
static TN_APART void tn_depthwise_sums(const tn_depthwise_taps *taps, int32_t count, int32_t zero,
                                       const int8_t *channels, const int8_t *filter, int32_t sides,
                                       int32_t *sums) {
  const int32_t *last = taps->places + 2 * taps->inside;
  const int32_t *rest = taps->places + 2 * count, *padded = rest - (zero ? taps->outside : 0);
  for (; sides > 0; --sides, channels += TN_SIDE, filter += TN_SIDE, sums += TN_SIDE) {
    const int32_t *place = taps->places;
#if defined(TN_MVE)
    int32_t two = sides > 1; // at once
    int32x4x2_t all = vld2q_s32(sums), next = vld2q_s32(sums + two * TN_SIDE);
    if (two) {
      for (; place != last; place += 2) {
        const int8_t *x = channels + place[0], *w = filter + place[1];
        all = tn_depthwise_side(all, vldrbq_s16(x), vldrbq_s16(w));
        next = tn_depthwise_side(next, vldrbq_s16(x + TN_SIDE), vldrbq_s16(w + TN_SIDE));
      }
    }
    for (; place != last; place += 2) {
      all = tn_depthwise_side(all, vldrbq_s16(channels + place[0]), vldrbq_s16(filter + place[1]));
    }
    int16x8_t x = vdupq_n_s16((int16_t)zero);
    for (place = padded; place != rest; ++place) {
      const int8_t *w = filter + *place;
      all = tn_depthwise_side(all, x, vldrbq_s16(w));
      next = tn_depthwise_side(next, x, vldrbq_s16(w + two * TN_SIDE));
    }
    vst2q_s32(sums + two * TN_SIDE,
              next); // the same place where there is one, so the first is last
    vst2q_s32(sums, all);
    sides -= two;
    channels += two * TN_SIDE;
    filter += two * TN_SIDE;
    sums += two * TN_SIDE;
#else
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    TN_ROLLED
    for (; place != last; place += 2) {
      const int8_t *x = channels + place[0], *w = filter + place[1];
#if defined(TN_DSP)
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
    TN_ROLLED
    for (place = padded; place != rest; ++place) {
      const int8_t *w = filter + *place;
      a += zero * w[0];
      b += zero * w[1];
      c += zero * w[2];
      d += zero * w[3];
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#endif
  }
}

// A depthwise convolution's arguments, and what is the same for all positions.
typedef struct {
  const tn_depthwise_shape *shape;
  const int8_t *weights;
  const int32_t *bias, *multiplier;
  const uint8_t *shift;
  int32_t filters; // of a channel
  tn_rounding rounding;
} tn_depthwise_layer;

// One position, whose taps have moved. Without `taps` they are looked for filter by filter.
static TN_APART void tn_depthwise_position(const tn_depthwise_layer *l,
                                           const tn_depthwise_taps *taps, int32_t moved,
                                           const tn_rows *image, int32_t top, int32_t left,
                                           int8_t *out) {
  const tn_depthwise_shape *s = l->shape;
  int32_t sums[TN_CHANNELS], used = 0, channel = 0;
  for (int32_t o = 0, count, i; o < s->out_c; o += count) {
    count = s->out_c - o < TN_CHANNELS ? s->out_c - o : TN_CHANNELS;
    TN_ROLLED
    for (i = 0; i < count; ++i) {
      sums[i] = l->bias[o + i];
    }
    i = 0;
    if (taps) {
      i = count & ~(TN_SIDE - 1);
      tn_depthwise_sums(taps, s->kernel_h * s->kernel_w, s->in_zero, image->bytes + channel + moved,
                        l->weights + o, count / TN_SIDE, sums);
      channel += i;
    }
    TN_ROLLED
    for (; i < count; ++i) {
      sums[i] += tn_depthwise_sum(s, image, channel, l->weights + o + i, top, left);
      if (++used == l->filters) {
        used = 0;
        ++channel;
      }
    }
    tn_store(sums, count, l->multiplier, l->shift, o, &l->rounding, out + o);
  }
}

// Rows [begin, end) of each picture; `out` is the first of them. With `places`, rows of the input
// lie there.
static void tn_depthwise(const tn_depthwise_shape *s, int32_t begin, int32_t end, const int8_t *in,
                         const uint16_t *places, const int8_t *weights, const int32_t *bias,
                         const int32_t *multiplier, const uint8_t *shift, int8_t *out) {
  tn_depthwise_layer l = {s, weights, bias, multiplier, shift, 0, {0, 0, 0, 0, 0}};
  l.filters = (int32_t)tn_quotient((uint32_t)s->out_c, (uint32_t)s->in_c);
  l.rounding = tn_rounding_of(s->out_zero, s->low, s->high, s->scale_step, shift, s->out_c);
  int32_t isSide = l.filters == 1 && s->kernel_h * s->kernel_w <= TN_TAPS;
  int32_t reach = (s->kernel_w - 1) * s->dilation_w;
  tn_depthwise_taps taps;
  for (int32_t n = 0; n < s->batch; ++n, in += s->in_h * s->in_w * s->in_c) {
    tn_rows image = {in, places, s->in_w * s->in_c};
    for (int32_t y = begin; y < end; ++y) {
      int32_t top = y * s->stride_h - s->pad_h, found = -1;
      for (int32_t x = 0; x < s->out_w; ++x, out += s->out_c) {
        int32_t left = x * s->stride_w - s->pad_w;
        // Between the borders of the picture the taps move along.
        if (isSide && (found < 0 || left + reach >= s->in_w)) {
          tn_depthwise_find(s, &image, top, left, &taps);
          found = left;
        }
        tn_depthwise_position(&l, isSide ? &taps : 0, (left - found) * s->in_c, &image, top, left,
                              out);
      }
    }
  }
}
