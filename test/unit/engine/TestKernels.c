/* Kernels for the tests of engine and runtime, compiled as the compiler's own code objects are:
 * nothing imported. TENON_TEST_FACTOR makes two objects with the same symbols differ. */

#include "engine/KernelAbi.h"

#define KERNEL __attribute__((visibility("default"))) int32_t

/* out[i] = factor * in[i], one grid point an element. */
KERNEL test_scale(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                  int64_t begin, int64_t end) {
  const float *in = buffers[0];
  float *out = buffers[1];
  for (int64_t i = begin; i < end; ++i) {
    out[i] = (float)(TENON_TEST_FACTOR)*in[i];
  }
  return TENON_KERNEL_OK;
}

/* out = a + b, one grid point an element; out may be a or b. */
KERNEL test_add(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                int64_t begin, int64_t end) {
  const float *a = buffers[0];
  const float *b = buffers[1];
  float *out = buffers[2];
  for (int64_t i = begin; i < end; ++i) {
    out[i] = a[i] + b[i];
  }
  return TENON_KERNEL_OK;
}

/* out[r, c] = sum over k of in[r, k] * weights[k, c]; sizes = {K, C}; one grid point a row. */
KERNEL test_product(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                    int64_t begin, int64_t end) {
  const float *in = buffers[0];
  const float *weights = buffers[1];
  float *out = buffers[2];
  int64_t depth = sizes[0];
  int64_t columns = sizes[1];
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        sum += in[row * depth + k] * weights[k * columns + column];
      }
      out[row * columns + column] = sum;
    }
  }
  return TENON_KERNEL_OK;
}

/* out[i] = table[index[i]]; sizes = {entries}. */
KERNEL test_gather(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                   int64_t begin, int64_t end) {
  const float *table = buffers[0];
  const int64_t *index = buffers[1];
  float *out = buffers[2];
  for (int64_t i = begin; i < end; ++i) {
    if (index[i] < 0 || index[i] >= sizes[0]) {
      return TENON_KERNEL_INDEX_RANGE;
    }
    out[i] = table[index[i]];
  }
  return TENON_KERNEL_OK;
}

/* Writes its thread number all over its scratch, reads it back, and out[i] = in[i] + 1; returns 3
 * when the scratch is misaligned, too small or shared. sizes = {bytes of scratch}. */
KERNEL test_scratch(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                    int64_t begin, int64_t end) {
  volatile uint32_t *words = context->scratch;
  if ((uintptr_t)words % 64 != 0 || context->scratchBytes < (uint64_t)sizes[0]) {
    return 3;
  }
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t w = 0; w < sizes[0] / 4; ++w) {
      words[w] = context->thread;
    }
    ((float *)buffers[1])[i] = ((const float *)buffers[0])[i] + 1;
    for (int64_t w = 0; w < sizes[0] / 4; ++w) {
      if (words[w] != context->thread) {
        return 3;
      }
    }
  }
  return TENON_KERNEL_OK;
}

/* Returns the number in the first element of the input; 34 never comes back, and 60 ends the thread
 * (on x86-64, of whose Linux these are the calls `pause` and `exit`). */
KERNEL test_fail(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                 int64_t begin, int64_t end) {
  int32_t number = (int32_t)((const float *)buffers[0])[0];
#ifdef __x86_64__
  while (number == 34 || number == 60) {
    long result = number;
    __asm__ volatile("syscall" : "+a"(result) : "D"(0L) : "rcx", "r11", "memory");
  }
#endif
  return number;
}

/* Does nothing: what remains is the cost of the launch. */
KERNEL test_nothing(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                    int64_t begin, int64_t end) {
  return TENON_KERNEL_OK;
}

/* out[i] = the thread's number, after a while. */
KERNEL test_who(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    for (volatile int wait = 0; wait < 20000; ++wait) {
    }
    ((float *)buffers[1])[i] = (float)context->thread;
  }
  return TENON_KERNEL_OK;
}

/* What no code object may have, each alone. */
#if defined(TENON_TEST_RESOLVER)
static void *resolve(void) { return (void *)test_nothing; }
__attribute__((visibility("default"), ifunc("resolve"))) void test_resolved(void);
#elif defined(TENON_TEST_TABLE)
__attribute__((used)) static const void *const table[] = {(const void *)test_nothing};
#elif defined(TENON_TEST_UNDEFINED)
void test_elsewhere(void);
KERNEL test_caller(const TenonKernelContext *context, void *const *buffers, const int64_t *sizes,
                   int64_t begin, int64_t end) {
  test_elsewhere();
  return TENON_KERNEL_OK;
}
#elif defined(TENON_TEST_DATA)
__attribute__((visibility("default"))) int test_data = 1;
#elif defined(TENON_TEST_THREAD)
__attribute__((visibility("default"))) __thread int test_thread = 1;
#endif
