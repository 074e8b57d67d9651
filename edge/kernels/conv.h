// Convolution over [batch, height, width, channels], dense or in groups; a fully connected layer is
// the one with a kernel of 1 by 1. Weights are [out_c, kernel_h, kernel_w, in_c / groups]. Two
// filters, and inside a picture two positions, are multiplied at once.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c, groups;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
  int32_t in_zero;    // what padding holds
  int32_t out_zero;   // added behind the rounding
  int32_t low, high;  // bounds of the result
  int32_t scale_step; // 1: a multiplier and shift for each channel; 0: one for all
} tn_conv_shape;

// One position by two filters.
static TN_APART void tn_dot_1x2(const int8_t *x, const int8_t *v, const int8_t *w, int32_t n,
                                int32_t *sums) {
  const int8_t *end = x + n;
  int32_t a = sums[0], b = sums[1];
#if defined(__ARM_FEATURE_DSP)
  const int8_t *words = x + (n & ~3);
  TN_ROLLED
  for (; x != words; x += 4, v += 4, w += 4) {
    uint32_t xs = tn_load(x), vs = tn_load(v), ws = tn_load(w);
    int16x2_t even = tn_even(xs), odd = tn_odd(xs);
    a = __smlad(even, tn_even(vs), a);
    b = __smlad(even, tn_even(ws), b);
    a = __smlad(odd, tn_odd(vs), a);
    b = __smlad(odd, tn_odd(ws), b);
  }
#endif
  TN_ROLLED
  for (; x != end; ++x, ++v, ++w) {
    a += *x * *v;
    b += *x * *w;
  }
  sums[0] = a;
  sums[1] = b;
}

// One position by four filters, which are `taps` apart.
static TN_APART void tn_dot_1x4(const int8_t *x, const int8_t *w, int32_t taps, int32_t *sums) {
  const int8_t *end = x + taps;
  int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
#if defined(__ARM_FEATURE_DSP)
  const int8_t *words = x + (taps & ~3);
  TN_ROLLED
  for (; x != words; x += 4, w += 4) {
    uint32_t xs = tn_load(x), ws = tn_load(w);
    int16x2_t even = tn_even(xs), odd = tn_odd(xs);
    const int8_t *next = w + taps;
    a = __smlad(even, tn_even(ws), a);
    a = __smlad(odd, tn_odd(ws), a);
    ws = tn_load(next);
    next += taps;
    b = __smlad(even, tn_even(ws), b);
    b = __smlad(odd, tn_odd(ws), b);
    ws = tn_load(next);
    next += taps;
    c = __smlad(even, tn_even(ws), c);
    c = __smlad(odd, tn_odd(ws), c);
    ws = tn_load(next);
    d = __smlad(even, tn_even(ws), d);
    d = __smlad(odd, tn_odd(ws), d);
  }
#endif
  TN_ROLLED
  for (; x != end; ++x, ++w) {
    a += *x * w[0];
    b += *x * w[taps];
    c += *x * w[2 * taps];
    d += *x * w[3 * taps];
  }
  sums[0] = a;
  sums[1] = b;
  sums[2] = c;
  sums[3] = d;
}

// Two positions by two filters; the second position's sums are the last two.
static TN_APART void tn_dot_2x2(const int8_t *x, const int8_t *y, const int8_t *v, const int8_t *w,
                                int32_t n, int32_t *sums) {
  const int8_t *end = x + n;
  int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
#if defined(__ARM_FEATURE_DSP)
  const int8_t *words = x + (n & ~3);
  TN_ROLLED
  for (; x != words; x += 4, y += 4, v += 4, w += 4) {
    uint32_t xs = tn_load(x), ys = tn_load(y), vs = tn_load(v);
    int16x2_t p = tn_even(xs), q = tn_even(ys), r = tn_odd(xs), t = tn_odd(ys);
    a = __smlad(p, tn_even(vs), a);
    c = __smlad(q, tn_even(vs), c);
    a = __smlad(r, tn_odd(vs), a);
    c = __smlad(t, tn_odd(vs), c);
    vs = tn_load(w);
    b = __smlad(p, tn_even(vs), b);
    d = __smlad(q, tn_even(vs), d);
    b = __smlad(r, tn_odd(vs), b);
    d = __smlad(t, tn_odd(vs), d);
  }
#endif
  TN_ROLLED
  for (; x != end; ++x, ++y, ++v, ++w) {
    a += *x * *v;
    b += *x * *w;
    c += *y * *v;
    d += *y * *w;
  }
  sums[0] = a;
  sums[1] = b;
  sums[2] = c;
  sums[3] = d;
}

// The zero point of the input is folded into the bias, as if padding held it: so it does.
static inline void tn_conv_padding(const tn_conv_shape *s, const int8_t *v, const int8_t *w,
                                   int32_t n, int32_t *sums) {
  for (int32_t i = 0; s->in_zero != 0 && i < n; ++i) {
    sums[0] += s->in_zero * v[i];
    sums[1] += s->in_zero * w[i];
  }
}

// One position by two filters, any of whose taps may lie outside.
static TN_APART void tn_conv_border(const tn_conv_shape *s, const tn_rows *image, const int8_t *v,
                                    const int8_t *w, int32_t depth, int32_t top, int32_t left,
                                    int32_t *sums) {
  // Taps side by side are one row in memory.
  int32_t isRow = s->dilation_w == 1 && depth == s->in_c;
  for (int32_t ky = 0; ky < s->kernel_h; ++ky) {
    int32_t y = top + ky * s->dilation_h, kx = 0;
    while (kx < s->kernel_w) {
      int32_t x = left + kx * s->dilation_w, taps = 1;
      if (y >= 0 && y < s->in_h && x >= 0 && x < s->in_w) {
        if (isRow) {
          taps = s->kernel_w - kx < s->in_w - x ? s->kernel_w - kx : s->in_w - x;
        }
        tn_dot_1x2(image->bytes + tn_row(image, y) + x * s->in_c, v, w, taps * depth, sums);
      } else {
        tn_conv_padding(s, v, w, depth, sums);
      }
      v += taps * depth;
      w += taps * depth;
      kx += taps;
    }
  }
}

// Two neighbours by two filters, whose taps lie in rows that are inside from left to right.
static TN_APART void tn_conv_inside(const tn_conv_shape *s, const tn_rows *image, const int8_t *v,
                                    const int8_t *w, int32_t top, int32_t left, int32_t *sums) {
  int32_t row = s->kernel_w * s->in_c, step = s->stride_w * s->in_c;
  for (int32_t ky = 0; ky < s->kernel_h; ++ky, v += row, w += row) {
    int32_t y = top + ky * s->dilation_h;
    if (y >= 0 && y < s->in_h) {
      const int8_t *in = image->bytes + tn_row(image, y) + left * s->in_c;
      tn_dot_2x2(in, in + step, v, w, row, sums);
    } else {
      tn_conv_padding(s, v, w, row, sums);
      tn_conv_padding(s, v, w, row, sums + 2);
    }
  }
}

// Sums as tn_dot_2x2 leaves them.
static TN_APART void tn_conv_store(const int32_t *sums, int32_t positions, int32_t filters,
                                   const int32_t *multiplier, const uint8_t *shift,
                                   int32_t scale_step, const int32_t *bounds, int32_t row,
                                   int8_t *out) {
  TN_ROLLED
  for (; positions > 0; --positions, sums += 2, out += row) {
    tn_store(sums, filters, multiplier, shift, scale_step, bounds, out);
  }
}

// What the taps of a position read, in the order of the weights.
static TN_APART void tn_conv_gather(const tn_conv_shape *s, const tn_rows *image, int32_t depth,
                                    int32_t top, int32_t left, int8_t *patch) {
  for (int32_t ky = 0; ky < s->kernel_h; ++ky) {
    int32_t y = top + ky * s->dilation_h;
    for (int32_t kx = 0; kx < s->kernel_w; ++kx) {
      int32_t x = left + kx * s->dilation_w;
      int32_t isInside = y >= 0 && y < s->in_h && x >= 0 && x < s->in_w;
      const int8_t *in = image->bytes + (isInside ? tn_row(image, y) + x * s->in_c : 0);
      for (int32_t i = 0; i < depth; ++i) {
        *patch++ = isInside ? in[i] : (int8_t)s->in_zero;
      }
    }
  }
}

#define TN_PATCH 64

// Up to two neighbours in a row, of one group.
static TN_APART void tn_conv_positions(const tn_conv_shape *s, const tn_rows *image,
                                       const int8_t *weights, const int32_t *bias,
                                       const int32_t *multiplier, const uint8_t *shift, int32_t top,
                                       int32_t left, int32_t positions, int8_t *out) {
  int32_t depth = s->in_c / s->groups, columns = s->out_c / s->groups;
  int32_t taps = s->kernel_h * s->kernel_w * depth, outputs = s->out_c;
  int32_t scale_step = s->scale_step, bounds[3] = {s->out_zero, s->low, s->high};
  int32_t isInside = left >= 0 && left + (positions - 1) * s->stride_w + s->kernel_w <= s->in_w;
  int32_t isPoint = s->kernel_h * s->kernel_w == 1 && isInside && top >= 0 && top < s->in_h;
  int32_t isGathered = isPoint || taps <= TN_PATCH;
  int8_t patch[2][TN_PATCH];
  const int8_t *first = patch[0], *second = patch[1];
  if (isPoint) {
    first = image->bytes + tn_row(image, top) + left * s->in_c;
    second = first + (positions - 1) * s->stride_w * s->in_c;
  } else if (isGathered) {
    for (int32_t p = 0; p < positions; ++p) {
      tn_conv_gather(s, image, depth, top, left + p * s->stride_w, patch[p]);
    }
  }
  for (int32_t o = 0, filters; o < columns; o += filters) {
    filters = columns - o < 2 ? columns - o : 2;
    // The last filter of an odd number of them is taken twice.
    const int8_t *v = weights + o * taps, *w = v + (filters - 1) * taps;
    int32_t sums[4] = {bias[o], bias[o + filters - 1], bias[o], bias[o + filters - 1]};
    if (isGathered && positions == 1 && columns - o >= 4) {
      filters = 4;
      sums[2] = bias[o + 2];
      sums[3] = bias[o + 3];
      tn_dot_1x4(first, v, taps, sums);
    } else if (isGathered && positions == 2) {
      tn_dot_2x2(first, second, v, w, taps, sums);
    } else if (isGathered) {
      tn_dot_1x2(first, v, w, taps, sums);
    } else if (positions == 2 && isInside) {
      tn_conv_inside(s, image, v, w, top, left, sums);
    } else {
      tn_conv_border(s, image, v, w, depth, top, left, sums);
      if (positions == 2) {
        tn_conv_border(s, image, v, w, depth, top, left + s->stride_w, sums + 2);
      }
    }
    tn_conv_store(sums, positions, filters, multiplier + o * scale_step, shift + o * scale_step,
                  scale_step, bounds, outputs, out + o);
  }
}

// Rows [begin, end) of each picture; `out` is the first of them. With `places`, rows of the input
// lie there.
static void tn_conv(const tn_conv_shape *s, int32_t begin, int32_t end, const int8_t *in,
                    const uint16_t *places, const int8_t *weights, const int32_t *bias,
                    const int32_t *multiplier, const uint8_t *shift, int8_t *out) {
  int32_t depth = s->in_c / s->groups, columns = s->out_c / s->groups;
  int32_t taps = s->kernel_h * s->kernel_w * depth;
  int32_t most = s->groups == 1 && s->dilation_w == 1 ? 2 : 1;
  for (int32_t n = 0; n < s->batch; ++n, in += s->in_h * s->in_w * s->in_c) {
    tn_rows image = {in, places, s->in_w * s->in_c};
    for (int32_t y = begin; y < end; ++y) {
      for (int32_t x = 0, positions; x < s->out_w; x += positions, out += positions * s->out_c) {
        positions = most < s->out_w - x ? most : s->out_w - x;
        for (int32_t g = 0; g < s->groups; ++g) {
          int32_t first = g * columns, scale = first * s->scale_step;
          image.bytes = in + g * depth;
          tn_conv_positions(s, &image, weights + first * taps, bias + first, multiplier + scale,
                            shift + scale, y * s->stride_h - s->pad_h, x * s->stride_w - s->pad_w,
                            positions, out + first);
        }
      }
    }
  }
}
