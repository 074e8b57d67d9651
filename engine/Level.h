// What a variant asks of a machine: an architecture and some of its features. The names are stored
// in engine files and written by users; the table says what each name means and which is better.

#pragma once

#include "engine/CudaArch.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::engine {

/// Values are stored in engine files.
enum class Architecture : uint8_t { X86_64 = 0, AArch64 = 1, Nvptx = 2 };
inline constexpr std::array<std::string_view, 3> kArchitectureNames = {"x86-64", "aarch64",
                                                                       "nvptx"};

constexpr bool isArchitecture(uint8_t value) { return value < kArchitectureNames.size(); }
constexpr std::string_view nameOf(Architecture architecture) {
  return kArchitectureNames[static_cast<uint8_t>(architecture)];
}

/// Bits of features, each of its architecture; stored in engine files. Those of nvptx are the
/// architectures of engine/CudaArch.h in their order: code for sm_80 asks for bit 0.
namespace x86 {
inline constexpr uint32_t kAvx2 = 1;   ///< AVX2, FMA, F16C, BMI, BMI2, LZCNT, MOVBE, POPCNT
inline constexpr uint32_t kAvx512 = 2; ///< AVX-512 F, BW, CD, DQ, VL
inline constexpr uint32_t kVnni = 4;   ///< AVX512-VNNI
inline constexpr uint32_t kBf16 = 8;   ///< AVX512-BF16
} // namespace x86
namespace arm {
inline constexpr uint32_t kNeon = 1;    ///< ASIMD
inline constexpr uint32_t kArmv82 = 2;  ///< LSE, CRC32, RDM, DPB
inline constexpr uint32_t kDotProd = 4; ///< products of 8-bit integers
} // namespace arm

struct Level {
  std::string_view name;
  Architecture architecture = Architecture::X86_64;
  uint32_t features = 0;
};

/// CPUs before GPUs; of one architecture the better ones later.
inline constexpr std::array kLevels = [] {
  using enum Architecture;
  constexpr std::array cpus = {
      Level{"x86-64-v3", X86_64, x86::kAvx2},
      Level{"avx512", X86_64, x86::kAvx2 | x86::kAvx512},
      Level{"avx512-vnni-bf16", X86_64, x86::kAvx2 | x86::kAvx512 | x86::kVnni | x86::kBf16},
      Level{"armv8-a", AArch64, arm::kNeon},
      Level{"armv8.2-a+dotprod", AArch64, arm::kNeon | arm::kArmv82 | arm::kDotProd},
  };
  std::array<Level, cpus.size() + kCudaArchs.size()> all;
  std::ranges::copy(cpus, all.begin());
  for (size_t i = 0; i < kCudaArchs.size(); ++i) {
    all[cpus.size() + i] = {kCudaArchs[i].name, Nvptx, uint32_t(1) << i};
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
