/* The memory that a test and a process under an emulator share: a kernel's code and all that it
 * touches, with this at its begin. It lies at one address in that process, so that the test writes
 * pointers as the kernel takes them. */
#ifndef TENON_TEST_UNIT_CODEGEN_FOREIGN_JOB_H
#define TENON_TEST_UNIT_CODEGEN_FOREIGN_JOB_H

#include "engine/KernelAbi.h"

#define TENON_JOB_ADDRESS 0x100000000

typedef struct TenonJob {
  TenonKernelFn kernel;
  TenonKernelContext context;
  void *const *buffers;
  const int64_t *sizes;
  int64_t grid;
  int64_t pieces; /* calls that the grid is divided into */
  int32_t status; /* the highest that a call returned */
} TenonJob;

#endif
