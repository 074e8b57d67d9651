/* The contract between generated code and the runtime, in plain C: what a kernel is given, what it
 * may rely on, what it returns. Both sides include this file; a change raises TENON_KERNEL_ABI
 * and the version of the engine file, so that an old engine is refused.
 *
 * A code object is an ELF shared object that imports nothing: no DT_NEEDED, no undefined symbol, no
 * relocation, no initializers. memcpy, memset and all math are its own.
 */
#ifndef TENON_ENGINE_KERNELABI_H
#define TENON_ENGINE_KERNELABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_KERNEL_ABI 2u

/* What a kernel returns: the highest of its failures. Values not listed are reported as TN0610. A
 * kernel that fails has still done all of its work, inside of its buffers.
 *
 * On a GPU a kernel that can fail takes one argument more, behind all others: a pointer to
 * TENON_KERNEL_STATUSES bytes in the host's memory, of which it sets number `status` to 1. */
enum {
  TENON_KERNEL_OK = 0,
  /* A value used as an index is out of range (TN0608). */
  TENON_KERNEL_INDEX_RANGE = 1,
  /* Integer division or remainder by zero, or INT_MIN / -1 (TN0609). */
  TENON_KERNEL_ARITHMETIC = 2,
  /* A constraint that the model states does not hold (TN0611). */
  TENON_KERNEL_CONSTRAINT = 3,
  /* A block of a GPU's grid waited in vain for another one (TN0610). */
  TENON_KERNEL_WAITED = 4,
  TENON_KERNEL_STATUSES = 5,
  /* On the CPU, from code with bounds checks: an access outside of the launch's memory (TN0613). It
     was not done. */
  TENON_KERNEL_OUT_OF_BOUNDS = 16
};

/* Memory that a launch may touch. */
typedef struct TenonRange {
  const void *begin;
  uint64_t bytes;
  uint64_t writable; /* 0 or 1 */
} TenonRange;

typedef struct TenonKernelContext {
  uint32_t abi;          /* TENON_KERNEL_ABI */
  uint32_t thread;       /* 0 .. threads - 1; distinct for calls that run at the same time */
  void *scratch;         /* this thread's own memory, 64-byte aligned, contents undefined */
  uint64_t scratchBytes; /* at least what the launch asked for */
  /* For code that was compiled with bounds checks; null for other code. */
  const TenonRange *ranges;
  uint64_t rangeCount;
} TenonKernelContext;

/* One kernel. It does grid points [begin, end) of [0, n), 0 <= begin < end <= n; the calls for
 * disjoint ranges may run in any order and at the same time, so what each writes must be disjoint.
 *
 * buffers  The launch's buffers in the plan's order: those that are read, then those that are
 *          written. Weights are buffers like any other. Const, arena and state buffers that are not
 *          views start on a 64-byte border. Input and output buffers are the caller's memory and
 *          are only aligned to their element; a view is aligned to what its offset says. So vector
 *          loads and stores state the element's alignment unless the buffer is known to be aligned.
 *          Nothing is readable or writable past a buffer's bytes: tails are masked.
 * sizes    The launch's size expressions, evaluated for the current shape.
 */
typedef int32_t (*TenonKernelFn)(const TenonKernelContext *context, void *const *buffers,
                                 const int64_t *sizes, int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif
#endif
