// The self-test of a library: inputs from a seed, then layer by layer the hash of what each wrote.
#pragma once

#include <stdint.h>

typedef struct {
  int32_t offset, bytes; // of what the layer wrote; no bytes where the next completes it
  int32_t hash;          // FNV-1a
} tn_selftest_layer;

typedef struct {
  int32_t layers, inputs, seed;
} tn_selftest_shape;

// `inputs` are an offset and a size each. 0, or 1 and the first layer that differs.
static int tn_selftest(const tn_selftest_shape *s, const tn_selftest_layer *layers,
                       const int32_t *inputs, void (*run)(void *arena, int layer), void *arena,
                       int *layer) {
  uint8_t *bytes = (uint8_t *)arena;
  uint32_t state = (uint32_t)s->seed;
  for (int32_t i = 0; i < s->inputs; ++i, inputs += 2) {
    for (int32_t k = 0; k < inputs[1]; ++k) {
      state = state * 1664525u + 1013904223u;
      bytes[inputs[0] + k] = (uint8_t)(state >> 24);
    }
  }
  for (int i = 0; i < s->layers; ++i, ++layers) {
    run(arena, i);
    uint32_t hash = 2166136261u;
    for (int32_t k = 0; k < layers->bytes; ++k) {
      hash = (hash ^ bytes[layers->offset + k]) * 16777619u;
    }
    if (layers->bytes > 0 && hash != (uint32_t)layers->hash) {
      *layer = i;
      return 1;
    }
  }
  return 0;
}
