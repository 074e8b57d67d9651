// Convolution over [batch, height, width, channels], dense or in groups; a fully connected layer is
// the one with a kernel of 1 by 1. Weights are [out_c, kernel_h, kernel_w, in_c / groups]. What the
// taps of one or two positions read is gathered, some taps at a time, and meets many filters.
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

#if defined(TN_MVE)
#define TN_POSITIONS 1 // at once
#define TN_PATCH 512   // taps of a position that are gathered at a time, a multiple of 4
#define TN_FILTERS 64  // that they meet, an even number
#else
#define TN_POSITIONS 2
#define TN_PATCH 128
#define TN_FILTERS 32
#endif

// Where the next tap lies in the kernel.
typedef struct {
  int32_t ky, kx, channel;
} tn_tap;

// A convolution's arguments, and what is the same for all positions.
typedef struct {
  const tn_conv_shape *shape;
  const int8_t *weights;
  const int32_t *bias, *multiplier;
  const uint8_t *shift;
  int32_t depth, columns, taps; // of a group: channels, filters, and taps of each
  int32_t isPoint;              // taps are channels of one place, inside
  tn_rounding rounding;
} tn_conv_layer;

// The next `count` taps of a position, in the order of the weights, from `tap` on, which moves
// behind them: where they lie in the image if they do so side by side, else in `patch`.
static TN_APART const int8_t *tn_conv_gather(const tn_conv_layer *l, const tn_rows *image,
                                             int32_t top, int32_t left, tn_tap *tap, int32_t count,
                                             int8_t *patch) {
  const tn_conv_shape *s = l->shape;
  const int8_t *found = patch;
  int32_t depth = l->depth;
  int32_t isRow = s->dilation_w == 1 && depth == s->in_c; // taps side by side are one in memory
  int8_t *to = patch, *last = patch + count;
  if (isRow && count == l->taps && top >= 0 && left >= 0 && left + s->kernel_w <= s->in_w &&
      top + (s->kernel_h - 1) * s->dilation_h < s->in_h) { // all of them, and all inside
    int32_t run = s->kernel_w * depth;
    for (; to != last; to += run, top += s->dilation_h) {
      tn_copy(to, image->bytes + tn_row(image, top) + left * depth, run);
    }
    return found;
  }
  int32_t kx = tap->kx, channel = tap->channel, y = top + tap->ky * s->dilation_h;
  while (to != last) {
    int32_t x = left + kx * s->dilation_w, taps = 1;
    int32_t isInside = y >= 0 && y < s->in_h && x >= 0 && x < s->in_w;
    if (isInside && isRow) {
      taps = s->kernel_w - kx < s->in_w - x ? s->kernel_w - kx : s->in_w - x;
    }
    int32_t run = taps * depth - channel, isWhole = run <= last - to;
    const int8_t *in = image->bytes + (isInside ? tn_row(image, y) + x * s->in_c + channel : 0);
    if (!isWhole) {
      run = (int32_t)(last - to);
      channel += run;
      int32_t cells = (int32_t)tn_quotient((uint32_t)channel, (uint32_t)depth);
      kx += cells;
      channel -= cells * depth;
    } else {
      channel = 0;
      kx += taps;
      if (kx == s->kernel_w) {
        kx = 0;
        y += s->dilation_h;
        ++tap->ky;
      }
    }
    if (isInside && run == count) {
      found = in;
      break;
    }
    if (isInside) {
      tn_copy(to, in, run);
    } else {
      TN_ROLLED
      for (int32_t i = 0; i < run; ++i) {
        to[i] = (int8_t)s->in_zero;
      }
    }
    to += run;
  }
  tap->kx = kx;
  tap->channel = channel;
  return found;
}

// What follows adds products of `n` gathered taps to sums, each of which has a filter. The next
// filter's taps are `row` behind, and there is room for an even number of sums.
#if defined(TN_MVE)
static TN_APART void tn_conv_single(const int8_t *taps, int32_t n, const int8_t *w, int32_t row,
                                    int32_t filters, int32_t *sums) {
  for (; filters >= 4; filters -= 4, w += 4 * row, sums += 4) {
    const int8_t *x = taps, *t = w, *u = t + row, *v = u + row, *z = v + row;
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (int32_t left = n; left > 0; left -= 16, x += 16, t += 16, u += 16, v += 16, z += 16) {
      mve_pred16_t some = vctp8q((uint32_t)left);
      int8x16_t xs = vldrbq_z_s8(x, some);
      a = vmladavaq_p_s8(a, xs, vldrbq_z_s8(t, some), some);
      b = vmladavaq_p_s8(b, xs, vldrbq_z_s8(u, some), some);
      c = vmladavaq_p_s8(c, xs, vldrbq_z_s8(v, some), some);
      d = vmladavaq_p_s8(d, xs, vldrbq_z_s8(z, some), some);
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
  }
  for (; filters > 0; --filters, w += row, ++sums) {
    const int8_t *x = taps, *t = w;
    int32_t a = *sums;
    for (int32_t left = n; left > 0; left -= 16, x += 16, t += 16) {
      mve_pred16_t some = vctp8q((uint32_t)left);
      a = vmladavaq_p_s8(a, vldrbq_z_s8(x, some), vldrbq_z_s8(t, some), some);
    }
    *sums = a;
  }
}

#else
static TN_APART void tn_conv_single(const int8_t *taps, int32_t n, const int8_t *w, int32_t row,
                                    int32_t filters, int32_t *sums) {
  for (; filters > 0; filters -= 2, w += 2 * row, sums += 2) {
    const int8_t *x = taps, *end = x + n, *u = w, *v = filters > 1 ? w + row : w;
    int32_t a = sums[0], b = sums[1];
    TN_ROLLED
    for (; x != end; ++x, ++u, ++v) {
      a += *x * *u;
      b += *x * *v;
    }
    sums[0] = a;
    sums[1] = b;
  }
}

#if defined(TN_DSP)
// Each four taps as two words, of bytes 0 and 2 and of 1 and 3; those of the next four taps are
// `step` words behind.
static TN_APART void tn_conv_widen(const int8_t *taps, int32_t n, uint32_t *words, int32_t step) {
  const int8_t *end = taps + n;
  TN_ROLLED
  for (; taps != end; taps += 4, words += step) {
    uint32_t four = tn_load(taps);
    words[0] = (uint32_t)tn_even(four);
    words[1] = (uint32_t)tn_odd(four);
  }
}

// One position's words by two filters.
static TN_APART void tn_dot_1x2(const uint32_t *x, const uint32_t *end, const int8_t *u,
                                const int8_t *v, int32_t *sums) {
  int32_t a = sums[0], b = sums[1];
  TN_ROLLED
  do {
    uint32_t us = tn_load(u), vs = tn_load(v), even = x[0], odd = x[1];
    a = __smlad((int16x2_t)even, tn_even(us), a);
    b = __smlad((int16x2_t)even, tn_even(vs), b);
    a = __smlad((int16x2_t)odd, tn_odd(us), a);
    b = __smlad((int16x2_t)odd, tn_odd(vs), b);
    x += 2;
    u += 4;
    v += 4;
  } while (x != end);
  sums[0] = a;
  sums[1] = b;
}

// Two positions' words by two filters.
static TN_APART void tn_dot_2x2(const uint32_t *x, const uint32_t *end, const int8_t *u,
                                const int8_t *v, int32_t *sums) {
  int32_t a = sums[0], b = sums[1], c = sums[TN_FILTERS], d = sums[TN_FILTERS + 1];
  TN_ROLLED
  do {
    uint32_t us = tn_load(u), vs = tn_load(v), even = x[0], odd = x[1];
    a = __smlad((int16x2_t)even, tn_even(us), a);
    b = __smlad((int16x2_t)even, tn_even(vs), b);
    a = __smlad((int16x2_t)odd, tn_odd(us), a);
    b = __smlad((int16x2_t)odd, tn_odd(vs), b);
    TN_BARRIER // else there are more words at a time than registers
        even = x[2];
    odd = x[3];
    c = __smlad((int16x2_t)even, tn_even(us), c);
    d = __smlad((int16x2_t)even, tn_even(vs), d);
    c = __smlad((int16x2_t)odd, tn_odd(us), c);
    d = __smlad((int16x2_t)odd, tn_odd(vs), d);
    x += 4;
    u += 4;
    v += 4;
  } while (x != end);
  sums[0] = a;
  sums[1] = b;
  sums[TN_FILTERS] = c;
  sums[TN_FILTERS + 1] = d;
}

static TN_APART void tn_conv_words(const uint32_t *words, int32_t positions, int32_t n,
                                   const int8_t *w, int32_t row, int32_t filters, int32_t *sums) {
  const uint32_t *end = words + (n >> 1) * positions;
  for (; filters > 0 && words != end; filters -= 2, w += 2 * row, sums += 2) {
    const int8_t *v = filters > 1 ? w + row : w;
    if (positions == 2) {
      tn_dot_2x2(words, end, w, v, sums);
    } else {
      tn_dot_1x2(words, end, w, v, sums);
    }
  }
}
#else
static TN_APART void tn_conv_pair(const int8_t *x, const int8_t *y, int32_t n, const int8_t *w,
                                  int32_t row, int32_t filters, int32_t *sums) {
  for (; filters > 0; filters -= 2, w += 2 * row, sums += 2) {
    const int8_t *v = filters > 1 ? w + row : w;
    int32_t a = sums[0], b = sums[1], c = sums[TN_FILTERS], d = sums[TN_FILTERS + 1];
    for (int32_t i = 0; i < n; ++i) {
      a += x[i] * w[i];
      b += x[i] * v[i];
      c += y[i] * w[i];
      d += y[i] * v[i];
    }
    sums[0] = a;
    sums[1] = b;
    sums[TN_FILTERS] = c;
    sums[TN_FILTERS + 1] = d;
  }
}
#endif
#endif

// What the filters of a group, from `group` on, make of neighbours in a row, at most TN_POSITIONS
// of them.
static TN_APART void tn_conv_positions(const tn_conv_layer *l, const tn_rows *image, int32_t group,
                                       int32_t top, int32_t left, int32_t positions, int8_t *out) {
  const tn_conv_shape *s = l->shape;
  positions = TN_POSITIONS == 1 ? 1 : positions;                      // which compilers see
  int32_t most = positions == 1 ? TN_POSITIONS * TN_PATCH : TN_PATCH; // taps at a time
  int32_t taps = l->taps, end = group + l->columns;
  int32_t sums[TN_POSITIONS][TN_FILTERS];
  int8_t patch[TN_POSITIONS * TN_PATCH];
  const int8_t *found[TN_POSITIONS];
#if defined(TN_DSP)
  uint32_t words[TN_PATCH];
#endif
  for (int32_t o = group, filters; o < end; o += filters) {
    filters = end - o < TN_FILTERS ? end - o : TN_FILTERS;
    for (int32_t p = 0; p < positions; ++p) {
      TN_ROLLED
      for (int32_t i = 0; i < filters; ++i) {
        sums[p][i] = l->bias[o + i];
      }
    }
    tn_tap tap = {0, 0, 0};
    for (int32_t done = 0, n; done < taps; done += n) {
      n = taps - done < most ? taps - done : most;
      if (o == group || taps > most) {
        tn_tap first = tap;
        for (int32_t p = 0; p < positions; ++p) {
          tap = first;
          int32_t x = left + p * s->stride_w;
          found[p] = l->isPoint ? image->bytes + tn_row(image, top) + x * s->in_c + done
                                : tn_conv_gather(l, image, top, x, &tap, n, patch + p * TN_PATCH);
#if defined(TN_DSP)
          tn_conv_widen(found[p], n & ~3, words + 2 * p, 2 * positions);
#endif
        }
      }
      const int8_t *w = l->weights + o * taps + done;
      int32_t rest = n;
#if defined(TN_DSP)
      tn_conv_words(words, positions, n & ~3, w, taps, filters, sums[0]);
      rest = n & 3;
#elif TN_POSITIONS == 2
      if (positions == 2) {
        tn_conv_pair(found[0], found[1], n, w, taps, filters, sums[0]);
        rest = 0;
      }
#endif
      for (int32_t p = 0; p < positions && rest > 0; ++p) {
        tn_conv_single(found[p] + n - rest, rest, w + n - rest, taps, filters, sums[p]);
      }
    }
    for (int32_t p = 0; p < positions; ++p) {
      tn_store(sums[p], filters, l->multiplier, l->shift, o, &l->rounding, out + p * s->out_c + o);
    }
  }
}

// Rows [begin, end) of each picture; `out` is the first of them. With `places`, rows of the input
// lie there.
static void tn_conv(const tn_conv_shape *s, int32_t begin, int32_t end, const int8_t *in,
                    const uint16_t *places, const int8_t *weights, const int32_t *bias,
                    const int32_t *multiplier, const uint8_t *shift, int8_t *out) {
  tn_conv_layer l = {s, weights, bias, multiplier, shift, s->in_c, s->out_c, 0, 0, {0, 0, 0, 0, 0}};
  if (s->groups != 1) {
    l.depth = (int32_t)tn_quotient((uint32_t)s->in_c, (uint32_t)s->groups);
    l.columns = (int32_t)tn_quotient((uint32_t)s->out_c, (uint32_t)s->groups);
  }
  l.taps = s->kernel_h * s->kernel_w * l.depth;
  l.isPoint = s->kernel_h == 1 && s->kernel_w == 1 && s->pad_h == 0 && s->pad_w == 0 &&
              (s->out_h - 1) * s->stride_h < s->in_h && (s->out_w - 1) * s->stride_w < s->in_w;
  l.rounding = tn_rounding_of(s->out_zero, s->low, s->high, s->scale_step, shift, s->out_c);
  for (int32_t n = 0; n < s->batch; ++n, in += s->in_h * s->in_w * s->in_c) {
    tn_rows image = {in, places, s->in_w * s->in_c};
    for (int32_t y = begin; y < end; ++y) {
      int32_t top = y * s->stride_h - s->pad_h, left = -s->pad_w;
      for (int32_t x = 0, positions; x < s->out_w; x += positions) {
        positions = TN_POSITIONS < s->out_w - x ? TN_POSITIONS : s->out_w - x;
        for (int32_t g = 0; g < s->groups; ++g) {
          image.bytes = in + g * l.depth;
          tn_conv_positions(&l, &image, g * l.columns, top, left, positions, out);
        }
        left += positions * s->stride_w;
        out += positions * s->out_c;
      }
    }
  }
}
