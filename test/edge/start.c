// The start of a program on a bare Cortex-M under QEMU: vectors, memory, and what it says through
// semihosting. Relies on board.ld for the symbols.
#include "test/edge/start_memory.h"

#include <stdint.h>

extern uint32_t stack_top, data_load, data_start, data_end, bss_start, bss_end;
int main(void);

static int semihost(int operation, void *argument) {
  register int r0 __asm__("r0") = operation;
  register void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void say(const char *text) {
  semihost(0x04, (void *)(uintptr_t)text); // SYS_WRITE0
}

static void leave(int code) {
  uint32_t block[2] = {0x20026, (uint32_t)code}; // ADP_Stopped_ApplicationExit
  semihost(0x20, block);                         // SYS_EXIT_EXTENDED
  for (;;) {
  }
}

// Sets bits of a register of the system.
static void allow(uintptr_t address, uint32_t bits) {
  *(volatile uint32_t *)address |= bits;
  __asm__ volatile("dsb\n\tisb" ::: "memory");
}

void reset(void) {
#if __ARM_ARCH >= 7
  allow(0xE000ED88, 0xFu << 20); // CPACR: the floating-point unit, whose registers MVE has too
#endif
#if __ARM_ARCH == 8 && __ARM_FEATURE_MVE
  allow(0xE000ED14, 1u << 19); // CCR.LOB: loops without branches
#endif
#if __ARM_ARCH == 6
  allow(0xE000ED14, 1u << 3); // CCR.UNALIGN_TRP: a Cortex-M3 that runs this faults where an M0 does
#endif
  memcpy(&data_start, &data_load, (size_t)((char *)&data_end - (char *)&data_start));
  memset(&bss_start, 0, (size_t)((char *)&bss_end - (char *)&bss_start));
  leave(main());
}

static void fault(void) {
  say("fault\n");
  leave(99);
}

__attribute__((section(".vectors"), used)) void *const vectors[] = {
    &stack_top,    (void *)reset, (void *)fault, (void *)fault,
    (void *)fault, (void *)fault, (void *)fault};
