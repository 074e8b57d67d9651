// The table of levels. Relies on LLVM's processor names x86-64-v3 and x86-64-v4 being the psABI's.
#include "compiler/codegen/cpu/base/Levels.h"

#include <array>

namespace tenon::codegen::cpu {

const LevelTarget &targetOf(engine::CpuLevel level) {
  static constexpr llvm::StringLiteral x86 = "x86_64-unknown-linux-gnu";
  static constexpr llvm::StringLiteral arm = "aarch64-unknown-linux-gnu";
  static constexpr std::array<LevelTarget, engine::kCpuLevelNames.size()> kTargets = {{
      {x86, "x86-64-v3", "", "haswell", 256},
      {x86, "x86-64-v4", "", "icelake-server", 512},
      {x86, "x86-64-v4", "+avx512vnni,+avx512bf16", "icelake-server", 512},
      {arm, "generic", "", "neoverse-n1", 128},
  }};
  return kTargets[static_cast<size_t>(level)];
}

} // namespace tenon::codegen::cpu
