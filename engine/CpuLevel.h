// The x86-64 instruction set levels that variants are compiled for, best last. The names are stored
// in engine files and shared by the compiler (which features to use) and the runtime (what runs).

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
};

inline constexpr std::array<std::string_view, 3> kCpuLevelNames = {"x86-64-v3", "avx512",
                                                                   "avx512-vnni-bf16"};

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
