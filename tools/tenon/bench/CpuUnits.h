// What a CPU's arithmetic units reach: a loop of registers alone for each unit that generated code
// uses, with the features that it asks for.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon::tool {

/// What is multiplied; sums are of FP32 or of 32-bit integers. The last two are of GPUs.
enum class Numbers { F32, Bf16, I8, Tf32, F8 };
inline constexpr std::string_view kNumbersNames[] = {"f32", "bf16", "int8", "tf32", "f8"};
constexpr std::string_view nameOf(Numbers numbers) {
  return kNumbersNames[static_cast<size_t>(numbers)];
}

/// A unit and a loop over it without loads.
struct CpuUnit {
  std::string_view name; ///< as people know it: "FMA, 256 bits"
  Numbers numbers;
  uint32_t features; ///< that the loop needs (engine/Level.h); AMX's also acquireFeatures
  void (*loop)();
  double operations; ///< of one call of the loop; a multiply-add counts as two
};

/// All units of the architecture that the program is compiled for; none where there are no loops.
std::span<const CpuUnit> cpuUnits();

/// Keeps the compiler from leaving out what makes `value`.
template <typename T> void use(T &value) { asm volatile("" : "+m"(value) : : "memory"); }

} // namespace tenon::tool
