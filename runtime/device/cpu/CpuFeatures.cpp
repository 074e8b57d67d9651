// On x86-64 reads CPUID leaves and XCR0; a feature counts only when the system saves its registers
// too.

#include "runtime/device/cpu/CpuFeatures.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#else
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

// Of leaf 7: EDX, and EAX of its second part.
constexpr unsigned kAmxBf16 = 1u << 22, kAvx512Fp16 = 1u << 23, kAmxTile = 1u << 24,
                   kAmxInt8 = 1u << 25;
constexpr unsigned kAvxVnni = 1u << 4, kAvx512Bf16 = 1u << 5;

/// Arguments of arch_prctl: asks for the permission to use a register state that is large, and the
/// state of AMX's tiles.
constexpr long kRequestPermission = 0x1023, kTileData = 18;

} // namespace

uint32_t hostFeatures() {
  namespace x86 = engine::x86;
  constexpr unsigned avxStates = 0x06;    // SSE and AVX registers
  constexpr unsigned avx512States = 0xe6; // and the masks and both parts of the ZMM registers
  constexpr unsigned tileStates = 0x60000;
  Leaf one = readLeaf(1, 0);
  Leaf seven = readLeaf(7, 0);
  Leaf sevenOne = readLeaf(7, 1);
  Leaf extended = readLeaf(0x80000001, 0);
  if (!hasAll(one.ecx, bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C | bit_POPCNT) ||
      !hasAll(seven.ebx, bit_AVX2 | bit_BMI | bit_BMI2) || !hasAll(extended.ecx, bit_LZCNT) ||
      !hasAll(savedStates(), avxStates)) {
    return 0;
  }
  uint32_t features = x86::kAvx2 | (hasAll(sevenOne.eax, kAvxVnni) ? x86::kAvxVnni : 0);
  if (!hasAll(seven.ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL) ||
      !hasAll(savedStates(), avx512States)) {
    return features;
  }
  features |= x86::kAvx512 | (hasAll(seven.ecx, bit_AVX512VNNI) ? x86::kVnni : 0) |
              (hasAll(sevenOne.eax, kAvx512Bf16) ? x86::kBf16 : 0) |
              (hasAll(seven.edx, kAvx512Fp16) ? x86::kFp16 : 0);
  if (!hasAll(savedStates(), tileStates)) {
    return features;
  }
  return features | (hasAll(seven.edx, kAmxTile | kAmxBf16) ? x86::kAmxBf16 : 0) |
         (hasAll(seven.edx, kAmxTile | kAmxInt8) ? x86::kAmxInt8 : 0);
}

bool acquireFeatures(uint32_t features) {
  bool usesTiles = (features & (engine::x86::kAmxBf16 | engine::x86::kAmxInt8)) != 0;
  return !usesTiles || syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#elif defined(__aarch64__)
uint32_t hostFeatures() {
  namespace arm = engine::arm;
  unsigned long caps = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
  auto bits = [](unsigned long set, unsigned long wanted, uint32_t feature) {
    return (set & wanted) == wanted ? feature : 0;
  };
  return bits(caps, HWCAP_ASIMD, arm::kNeon) |
         bits(caps, HWCAP_ATOMICS | HWCAP_CRC32 | HWCAP_ASIMDRDM | HWCAP_DCPOP, arm::kArmv82) |
         bits(caps, HWCAP_ASIMDDP, arm::kDotProd) |
         bits(caps, HWCAP_FPHP | HWCAP_ASIMDHP, arm::kFp16) | bits(more, HWCAP2_I8MM, arm::kI8mm) |
         bits(more, HWCAP2_BF16, arm::kBf16) | bits(caps, HWCAP_SVE, arm::kSve);
}

bool acquireFeatures(uint32_t) { return true; }
#else
uint32_t hostFeatures() {
  constexpr unsigned long vectors = 1ul << ('v' - 'a');
  return (getauxval(AT_HWCAP) & vectors) != 0 ? engine::riscv::kRvv : 0;
}

bool acquireFeatures(uint32_t) { return true; }
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
