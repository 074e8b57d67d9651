// The cores that a library can be for. Internal to this folder.
#pragma once

#include "compiler/codegen/edge/Library.h"

#include <cstdint>
#include <span>

namespace tenon::codegen::edge {

/// The kernels as LLVM bitcode, not yet optimized.
std::span<const uint8_t> bitcodeOf(const Core &core);

} // namespace tenon::codegen::edge
