/* The process under an emulator: runs the job of the file that is its standard input. Has no
 * library, so that no other architecture's need be installed. */
#include "test/unit/codegen/foreign/Job.h"

enum { kSeek = 62, kExit = 94, kMap = 222 }; /* Linux, of all architectures without older numbers */
enum { kSeekEnd = 2, kAllAccess = 7, kShared = 1, kFixedNoReplace = 0x100000 };

static int64_t callSystem(int64_t number, int64_t a, int64_t b, int64_t c, int64_t d) {
#if defined(__aarch64__)
  register int64_t what __asm__("x8") = number;
  register int64_t x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  register int64_t x3 __asm__("x3") = d, x4 __asm__("x4") = 0, x5 __asm__("x5") = 0;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(what), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
#elif defined(__riscv)
  register int64_t what __asm__("a7") = number;
  register int64_t a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
  register int64_t a3 __asm__("a3") = d, a4 __asm__("a4") = 0, a5 __asm__("a5") = 0;
  __asm__ volatile("ecall"
                   : "+r"(a0)
                   : "r"(what), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
                   : "memory");
  return a0;
#endif
}

void _start(void) {
  int64_t bytes = callSystem(kSeek, 0, 0, kSeekEnd, 0);
  TenonJob *job =
      (TenonJob *)callSystem(kMap, TENON_JOB_ADDRESS, bytes, kAllAccess, kShared | kFixedNoReplace);
  for (int64_t piece = 0; piece < job->pieces; ++piece) {
    int64_t begin = job->grid * piece / job->pieces, end = job->grid * (piece + 1) / job->pieces;
    if (begin < end) {
      int32_t status = job->kernel(&job->context, job->buffers, job->sizes, begin, end);
      job->status = status > job->status ? status : job->status;
    }
  }
  callSystem(kExit, 0, 0, 0, 0);
  __builtin_unreachable();
}
