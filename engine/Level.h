// What a variant asks of a machine: an architecture and some of its features. Names are stored in
// engine files and written by users; the one table of features and CPU levels says what each means,
// which is better, and what code generation is told. A new level is a row, here and nowhere else.

#pragma once

#include "engine/CudaArch.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::engine {

/// Values are stored in engine files.
enum class Architecture : uint8_t { X86_64 = 0, AArch64 = 1, Nvptx = 2, RiscV64 = 3 };
inline constexpr std::array<std::string_view, 4> kArchitectureNames = {"x86-64", "aarch64", "nvptx",
                                                                       "riscv64"};

constexpr bool isArchitecture(uint8_t value) { return value < kArchitectureNames.size(); }
constexpr std::string_view nameOf(Architecture architecture) {
  return kArchitectureNames[static_cast<uint8_t>(architecture)];
}

/// Bits of features, each of its architecture; stored in engine files. Those of nvptx are the
/// architectures of engine/CudaArch.h in their order: code for sm_80 asks for bit 0.
namespace x86 {
inline constexpr uint32_t kAvx2 = 1 << 0;    ///< AVX2, FMA, F16C, BMI, BMI2, LZCNT, MOVBE, POPCNT
inline constexpr uint32_t kAvx512 = 1 << 1;  ///< AVX-512 F, BW, CD, DQ, VL
inline constexpr uint32_t kVnni = 1 << 2;    ///< AVX512-VNNI: products of 8-bit integers
inline constexpr uint32_t kBf16 = 1 << 3;    ///< AVX512-BF16: products of BF16
inline constexpr uint32_t kAvxVnni = 1 << 4; ///< AVX-VNNI: those of VNNI on 256 bits
inline constexpr uint32_t kFp16 = 1 << 5;    ///< AVX512-FP16: arithmetic of FP16
inline constexpr uint32_t kAmxBf16 = 1 << 6; ///< AMX tiles, and products of BF16 on them
inline constexpr uint32_t kAmxInt8 = 1 << 7; ///< AMX tiles, and products of 8-bit integers on them
} // namespace x86
namespace arm {
inline constexpr uint32_t kNeon = 1 << 0;    ///< ASIMD
inline constexpr uint32_t kArmv82 = 1 << 1;  ///< LSE, CRC32, RDM, DPB
inline constexpr uint32_t kDotProd = 1 << 2; ///< products of 8-bit integers
inline constexpr uint32_t kFp16 = 1 << 3;    ///< arithmetic of FP16
inline constexpr uint32_t kI8mm = 1 << 4;    ///< 8-bit integers by matrices of 2 x 8
inline constexpr uint32_t kBf16 = 1 << 5;    ///< products of BF16
inline constexpr uint32_t kSve = 1 << 6;     ///< scalable vectors
} // namespace arm
namespace riscv {
inline constexpr uint32_t kRvv = 1 << 0; ///< RV64GC with V
} // namespace riscv

/// A feature of a CPU. How a machine is asked for it is in runtime/device/cpu/CpuFeatures.cpp.
struct CpuFeature {
  Architecture architecture;
  uint32_t bit;
  std::string_view name;
  std::string_view llvm;  ///< as code generation asks for it; empty where the processor implies it
  std::string_view flags; ///< in /proc/cpuinfo
};

inline constexpr std::array kCpuFeatures = [] {
  using enum Architecture;
  return std::to_array<CpuFeature>({
      {X86_64, x86::kAvx2, "avx2", "", "avx avx2 bmi1 bmi2 f16c fma abm movbe"},
      {X86_64, x86::kAvx512, "avx512", "", "avx512f avx512bw avx512cd avx512dq avx512vl"},
      {X86_64, x86::kVnni, "avx512-vnni", "+avx512vnni", "avx512_vnni"},
      {X86_64, x86::kBf16, "avx512-bf16", "+avx512bf16", "avx512_bf16"},
      {X86_64, x86::kAvxVnni, "avx-vnni", "+avxvnni", "avx_vnni"},
      {X86_64, x86::kFp16, "avx512-fp16", "+avx512fp16", "avx512_fp16"},
      {X86_64, x86::kAmxBf16, "amx-bf16", "+amx-tile,+amx-bf16", "amx_tile amx_bf16"},
      {X86_64, x86::kAmxInt8, "amx-int8", "+amx-tile,+amx-int8", "amx_tile amx_int8"},
      {AArch64, arm::kNeon, "neon", "", "asimd"},
      {AArch64, arm::kArmv82, "armv8.2-a", "+v8.2a", "atomics crc32 asimdrdm dcpop"},
      {AArch64, arm::kDotProd, "dotprod", "+dotprod", "asimddp"},
      {AArch64, arm::kFp16, "fp16", "+fullfp16", "fphp asimdhp"},
      {AArch64, arm::kI8mm, "i8mm", "+i8mm", "i8mm"},
      {AArch64, arm::kBf16, "bf16", "+bf16", "bf16"},
      {AArch64, arm::kSve, "sve", "+sve", "sve"},
      {RiscV64, riscv::kRvv, "rvv", "+m,+a,+f,+d,+c,+v", "v"},
  });
}();

/// The CPU levels that the compiler compiles for: rows of kCpuLevels.
enum class CpuLevel : uint8_t {
  X86_64_V3,
  AvxVnni,
  Avx512,
  Avx512Vnni,
  Avx512VnniBf16,
  Avx512Fp16,
  Amx,
  Armv8A,
  Armv82DotProd,
  Armv86I8mm,
  Armv9Sve,
  Rv64Gcv,
};

struct CpuLevelRow {
  CpuLevel level;
  std::string_view name;
  std::string_view alias; ///< a second name for users; empty for none
  Architecture architecture;
  uint32_t features;
  // What LLVM is told. Nothing is asked of the machine that compiles, so equal input gives equal
  // code anywhere. LLVM's processors x86-64-v3 and x86-64-v4 are the psABI's.
  std::string_view triple;
  std::string_view cpu;  ///< -march; the features' own `llvm` are added
  std::string_view tune; ///< -mtune: for which core to schedule
  int64_t vectorBits;    ///< of the widest register that code uses
  bool isDefault;        ///< one of `--target cpu`
};

/// Of each architecture the better ones later.
inline constexpr std::array kCpuLevels = [] {
  using enum Architecture;
  using enum CpuLevel;
  constexpr std::string_view linuxX86 = "x86_64-unknown-linux-gnu";
  constexpr std::string_view linuxArm = "aarch64-unknown-linux-gnu";
  constexpr uint32_t avx512 = x86::kAvx2 | x86::kAvx512, bf16 = avx512 | x86::kVnni | x86::kBf16;
  constexpr uint32_t dotProd = arm::kNeon | arm::kArmv82 | arm::kDotProd;
  constexpr uint32_t i8mm = dotProd | arm::kFp16 | arm::kI8mm | arm::kBf16;
  constexpr uint32_t amx = bf16 | x86::kFp16 | x86::kAmxBf16 | x86::kAmxInt8;
  return std::to_array<CpuLevelRow>({
      // clang-format off
      {X86_64_V3, "x86-64-v3", "avx2", X86_64, x86::kAvx2, linuxX86, "x86-64-v3", "haswell", 256, true},
      {AvxVnni, "avx-vnni", "", X86_64, x86::kAvx2 | x86::kAvxVnni, linuxX86, "x86-64-v3", "alderlake", 256, false},
      {Avx512, "avx512", "", X86_64, avx512, linuxX86, "x86-64-v4", "icelake-server", 512, true},
      {Avx512Vnni, "avx512-vnni", "", X86_64, avx512 | x86::kVnni, linuxX86, "x86-64-v4", "icelake-server", 512, false},
      {Avx512VnniBf16, "avx512-vnni-bf16", "", X86_64, bf16, linuxX86, "x86-64-v4", "icelake-server", 512, true},
      {Avx512Fp16, "avx512-fp16", "", X86_64, bf16 | x86::kFp16, linuxX86, "x86-64-v4", "sapphirerapids", 512, false},
      {Amx, "amx", "", X86_64, amx, linuxX86, "x86-64-v4", "sapphirerapids", 512, false},
      {Armv8A, "armv8-a", "", AArch64, arm::kNeon, linuxArm, "generic", "neoverse-n1", 128, false},
      {Armv82DotProd, "armv8.2-a+dotprod", "", AArch64, dotProd, linuxArm, "generic", "neoverse-n1", 128, false},
      {Armv86I8mm, "armv8.6-a+i8mm", "", AArch64, i8mm, linuxArm, "generic", "neoverse-v1", 128, false},
      {Armv9Sve, "armv9-a+sve", "", AArch64, i8mm | arm::kSve, linuxArm, "generic", "neoverse-v1", 128, false},
      {Rv64Gcv, "rv64gcv", "", RiscV64, riscv::kRvv, "riscv64-unknown-linux-gnu", "generic-rv64", "generic-rv64", 128, false},
      // clang-format on
  });
}();
static_assert(std::ranges::all_of(kCpuLevels, [](const CpuLevelRow &row) {
  return &row == &kCpuLevels[static_cast<size_t>(row.level)];
}));

constexpr const CpuLevelRow &rowOf(CpuLevel level) {
  return kCpuLevels[static_cast<size_t>(level)];
}
constexpr std::string_view nameOf(CpuLevel level) { return rowOf(level).name; }
/// FP32 elements of the widest register.
constexpr int64_t floatLanes(CpuLevel level) { return rowOf(level).vectorBits / 32; }

/// By its name or alias.
constexpr std::optional<CpuLevel> parseCpuLevel(std::string_view name) {
  for (const CpuLevelRow &row : kCpuLevels) {
    if (row.name == name || (!row.alias.empty() && row.alias == name)) {
      return row.level;
    }
  }
  return std::nullopt;
}

struct Level {
  std::string_view name;
  Architecture architecture = Architecture::X86_64;
  uint32_t features = 0;
};

/// CPUs before GPUs; of one architecture the better ones later.
inline constexpr std::array kLevels = [] {
  std::array<Level, kCpuLevels.size() + kCudaArchs.size()> all;
  for (size_t i = 0; i < kCpuLevels.size(); ++i) {
    all[i] = {kCpuLevels[i].name, kCpuLevels[i].architecture, kCpuLevels[i].features};
  }
  for (size_t i = 0; i < kCudaArchs.size(); ++i) {
    all[kCpuLevels.size() + i] = {kCudaArchs[i].name, Architecture::Nvptx, uint32_t(1) << i};
  }
  return all;
}();

/// Null for a name that is not in the table.
constexpr const Level *findLevel(std::string_view name) {
  const Level *found = std::ranges::find(kLevels, name, &Level::name);
  return found == kLevels.end() ? nullptr : found;
}

/// "avx2, avx512"; bits that have no name as their number.
std::string featureText(Architecture architecture, uint32_t features);

} // namespace tenon::engine
