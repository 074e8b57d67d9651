// A function of one 8-bit number as a table of 256.
#pragma once

#include "edge/kernels/common.h"

typedef struct {
  int32_t count;
} tn_table_shape;

static void tn_table(const tn_table_shape *s, const int8_t *in, const int8_t *values, int8_t *out) {
  for (int32_t i = 0; i < s->count; ++i) {
    out[i] = values[in[i] + 128];
  }
}
