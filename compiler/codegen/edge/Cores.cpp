// The flags for clang with which CMakeLists.txt makes the bitcode say the same of each core.
#include "compiler/codegen/edge/Cores.h"

#include <array>

namespace tenon::codegen::edge {
namespace {

constexpr uint8_t kCortexM0[] = {
#include "edge/bitcode/cortex-m0.inc"
};
constexpr uint8_t kCortexM4[] = {
#include "edge/bitcode/cortex-m4.inc"
};
constexpr uint8_t kCortexM33[] = {
#include "edge/bitcode/cortex-m33.inc"
};
constexpr uint8_t kCortexM55[] = {
#include "edge/bitcode/cortex-m55.inc"
};
constexpr uint8_t kRv32[] = {
#include "edge/bitcode/rv32imac.inc"
};
constexpr uint8_t kRv64[] = {
#include "edge/bitcode/rv64.inc"
};
constexpr uint8_t kAArch64[] = {
#include "edge/bitcode/aarch64.inc"
};

struct CoreRow {
  Core core;
  std::span<const uint8_t> bitcode;
};

constexpr std::array<CoreRow, 7> kCores = {{
    {{"cortex-m0", "thumbv6m-none-unknown-eabi", "cortex-m0", "", ""}, kCortexM0},
    {{"cortex-m4", "thumbv7em-none-unknown-eabi", "cortex-m4", "", ""}, kCortexM4},
    {{"cortex-m33", "thumbv8m.main-none-unknown-eabi", "cortex-m33", "", ""}, kCortexM33},
    {{"cortex-m55", "thumbv8.1m.main-none-unknown-eabihf", "cortex-m55", "", ""}, kCortexM55},
    {{"rv32imac", "riscv32-unknown-unknown-elf", "generic-rv32", "+m,+a,+c", "ilp32"}, kRv32},
    {{"rv64", "riscv64-unknown-unknown-elf", "generic-rv64", "+m,+a,+f,+d,+c", "lp64d"}, kRv64},
    {{"aarch64", "aarch64-unknown-none-elf", "generic", "+neon", ""}, kAArch64},
}};

} // namespace

const Core *coreNamed(std::string_view name) {
  for (const CoreRow &row : kCores) {
    if (row.core.name == name) {
      return &row.core;
    }
  }
  return nullptr;
}

std::string coreNames() {
  std::string names;
  for (const CoreRow &row : kCores) {
    names += (names.empty() ? "" : ", ") + std::string(row.core.name);
  }
  return names;
}

std::span<const uint8_t> bitcodeOf(const Core &core) {
  for (const CoreRow &row : kCores) {
    if (row.core.name == core.name) {
      return row.bitcode;
    }
  }
  return {};
}

} // namespace tenon::codegen::edge
