// On x86-64 reads CPUID leaves and XCR0; a feature counts only when the system saves its registers
// too.

#include "runtime/device/cpu/CpuFeatures.h"

#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tenon::runtime {

#if defined(__x86_64__)
namespace {

struct Leaf {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

Leaf readLeaf(unsigned leaf, unsigned subleaf) {
  Leaf out;
  // Returns 0 and leaves zeros where the processor has no such leaf.
  __get_cpuid_count(leaf, subleaf, &out.eax, &out.ebx, &out.ecx, &out.edx);
  return out;
}

/// Register states that the operating system saves (XCR0).
unsigned savedStates() {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

constexpr bool hasAll(unsigned value, unsigned mask) { return (value & mask) == mask; }

} // namespace

uint32_t hostFeatures() {
  constexpr unsigned avxStates = 0x06;    // SSE and AVX registers
  constexpr unsigned avx512States = 0xe6; // and the masks and both parts of the ZMM registers
  Leaf one = readLeaf(1, 0);
  Leaf seven = readLeaf(7, 0);
  Leaf sevenOne = readLeaf(7, 1);
  Leaf extended = readLeaf(0x80000001, 0);
  if (!hasAll(one.ecx, bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C | bit_POPCNT) ||
      !hasAll(seven.ebx, bit_AVX2 | bit_BMI | bit_BMI2) || !hasAll(extended.ecx, bit_LZCNT) ||
      !hasAll(savedStates(), avxStates)) {
    return 0;
  }
  if (!hasAll(seven.ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL) ||
      !hasAll(savedStates(), avx512States)) {
    return engine::x86::kAvx2;
  }
  return engine::x86::kAvx2 | engine::x86::kAvx512 |
         (hasAll(seven.ecx, bit_AVX512VNNI) ? engine::x86::kVnni : 0) |
         (hasAll(sevenOne.eax, bit_AVX512BF16) ? engine::x86::kBf16 : 0);
}
#else
uint32_t hostFeatures() {
  unsigned long caps = getauxval(AT_HWCAP);
  constexpr unsigned long armv82 = HWCAP_ATOMICS | HWCAP_CRC32 | HWCAP_ASIMDRDM | HWCAP_DCPOP;
  return ((caps & HWCAP_ASIMD) != 0 ? engine::arm::kNeon : 0) |
         ((caps & armv82) == armv82 ? engine::arm::kArmv82 : 0) |
         ((caps & HWCAP_ASIMDDP) != 0 ? engine::arm::kDotProd : 0);
}
#endif

const engine::Level *bestHostLevel() {
  uint32_t features = hostFeatures();
  const engine::Level *best = nullptr;
  for (const engine::Level &level : engine::kLevels) {
    bool runs = level.architecture == kHostArchitecture && (level.features & ~features) == 0;
    best = runs ? &level : best;
  }
  return best;
}

} // namespace tenon::runtime
