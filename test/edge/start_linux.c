// The start of a program without a library on Linux: AArch64 and RISC-V under QEMU's user mode.
#include "test/edge/start_memory.h"

#include <stdint.h>

int main(void);

#if defined(__aarch64__)
__asm__(".globl _start\n_start: bl begin\n");
static long system_call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
#else
__asm__(".globl _start\n_start: call begin\n");
static long system_call(long number, long a, long b, long c) {
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = a;
  register long a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
  return a0;
}
#endif

void say(const char *text) {
  long size = 0;
  while (text[size] != 0) {
    ++size;
  }
  system_call(64, 1, (long)(intptr_t)text, size); // write
}

void begin(void) {
  system_call(94, main(), 0, 0); // exit_group
  for (;;) {
  }
}
