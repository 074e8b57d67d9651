// The CPU levels that the compiler compiles for, of each architecture the best last. What each asks
// of a machine is in engine/Level.h.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon::engine {

enum class CpuLevel : uint8_t {
  X86_64_V3 = 0,      ///< AVX2, FMA, F16C, BMI2
  Avx512 = 1,         ///< v3 and AVX-512 F, BW, CD, DQ, VL
  Avx512VnniBf16 = 2, ///< avx512 and AVX512-VNNI, AVX512-BF16
  Armv8A = 3,         ///< AArch64 with NEON
};

inline constexpr std::array<std::string_view, 4> kCpuLevelNames = {
    "x86-64-v3", "avx512", "avx512-vnni-bf16", "armv8-a"};

constexpr std::string_view nameOf(CpuLevel level) {
  return kCpuLevelNames[static_cast<uint8_t>(level)];
}

constexpr std::optional<CpuLevel> parseCpuLevel(std::string_view name) {
  for (size_t i = 0; i < kCpuLevelNames.size(); ++i) {
    if (kCpuLevelNames[i] == name) {
      return static_cast<CpuLevel>(i);
    }
  }
  return std::nullopt;
}

} // namespace tenon::engine
