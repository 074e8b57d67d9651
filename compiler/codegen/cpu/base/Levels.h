// What LLVM is told about each CPU level: the architecture, the processor, its features and for
// which core to schedule. Nothing is asked of the machine that compiles, so equal input gives equal
// code anywhere.
#pragma once

#include "engine/CpuLevel.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace tenon::codegen::cpu {

struct LevelTarget {
  llvm::StringRef triple;
  llvm::StringRef cpu;      ///< -march
  llvm::StringRef features; ///< added to those of `cpu`
  llvm::StringRef tune;     ///< -mtune
  int64_t vectorBits;       ///< widest register
};

const LevelTarget &targetOf(engine::CpuLevel level);

/// FP32 elements of the widest register.
inline int64_t floatLanes(engine::CpuLevel level) { return targetOf(level).vectorBits / 32; }

} // namespace tenon::codegen::cpu
