// The same number everywhere: what a pad is before its inside is copied.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t count, value;
} tn_fill_shape;

static void tn_fill(const tn_fill_shape *s, int8_t *out) {
  for (int32_t i = 0; i < s->count; ++i) {
    out[i] = (int8_t)s->value;
  }
}
