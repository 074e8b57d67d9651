// c = a + alpha * b for elements begin to end: threads share them out.
#include <stdint.h>

void vector_add(const float *a, const float *b, float *c, int64_t begin, int64_t end, float alpha) {
  for (int64_t i = begin; i < end; ++i) {
    c[i] = a[i] + alpha * b[i];
  }
}
