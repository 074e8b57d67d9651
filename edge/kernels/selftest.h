// The self-test of a library: inputs from a seed, then layer by layer hashes (FNV-1a) of where each
// row lies that it wrote and of what it holds.
#pragma once

#include <stdint.h>

typedef struct {
  int32_t places;        // where they begin among all places, -1: rows are neighbours
  int32_t offset, bytes; // of the first row, and of one; no bytes where the next layer completes it
  int32_t first;         // the step's row from which on they are whole
  int32_t hashes[2];
} tn_selftest_layer;

typedef struct {
  int32_t layers, steps, inputs, seed;
} tn_selftest_shape;

static uint32_t tn_selftest_hash(const uint8_t *bytes, int32_t count, uint32_t hash) {
  for (int32_t i = 0; i < count; ++i) {
    hash = (hash ^ bytes[i]) * 16777619u;
  }
  return hash;
}

// `inputs` are an offset and a size each; each step is of a layer and a row; `hashes` has room for
// each layer. 0, or 1 and the first layer that differs.
static int tn_selftest(const tn_selftest_shape *s, const tn_selftest_layer *layers,
                       const int32_t *inputs, const uint16_t *step_layers,
                       const uint16_t *step_rows, const uint16_t *places, uint32_t *hashes,
                       void (*run)(void *arena, int step), void *arena, int *layer) {
  uint8_t *bytes = (uint8_t *)arena;
  uint32_t state = (uint32_t)s->seed;
  for (int32_t i = 0; i < s->inputs; ++i, inputs += 2) {
    for (int32_t k = 0; k < inputs[1]; ++k) {
      state = state * 1664525u + 1013904223u;
      bytes[inputs[0] + k] = (uint8_t)(state >> 24);
    }
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < s->layers; ++i) {
      hashes[i] = 2166136261u;
    }
    for (int step = 0; step < s->steps; ++step) {
      if (pass == 1) {
        run(arena, step);
      }
      int at = step_layers[step], row = step_rows[step];
      const tn_selftest_layer *made = layers + at;
      if (made->bytes == 0 || row < made->first) {
        continue;
      }
      int32_t offset = made->places < 0 ? made->offset + (row - made->first) * made->bytes
                                        : 4 * places[made->places + row];
      uint8_t place[4];
      for (int i = 0; i < 4; ++i) {
        place[i] = (uint8_t)(offset >> 8 * i);
      }
      hashes[at] = pass == 0 ? tn_selftest_hash(place, 4, hashes[at])
                             : tn_selftest_hash(bytes + offset, made->bytes, hashes[at]);
    }
    for (int i = 0; i < s->layers; ++i) {
      if (layers[i].bytes > 0 && hashes[i] != (uint32_t)layers[i].hashes[pass]) {
        *layer = i;
        return 1;
      }
    }
  }
  return 0;
}
