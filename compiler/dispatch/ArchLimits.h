// What a kernel's layout and its occupancy depend on of an NVIDIA architecture: dispatch estimates
// by it, codegen lays out by it. Numbers of the data-center part of each; on a smaller one the
// layouts stay right, but are chosen for more processors than it has.
#pragma once

#include "engine/CudaArch.h"

#include <cstdint>

namespace tenon::dispatch {

/// Streaming multiprocessors.
constexpr int64_t processors(const engine::CudaArch &arch) { return arch.number >= 90 ? 132 : 108; }

/// Whether four warps together multiply matrices (codegen/cuda/base/Warpgroup.h): on one
/// architecture.
constexpr bool hasWarpgroups(const engine::CudaArch &arch) {
  return arch.number == 90 && arch.isSpecific;
}

/// Bytes of shared memory that a block may have, of any part of the architecture.
constexpr int64_t sharedLimit(const engine::CudaArch &arch) {
  if (arch.number >= 90) {
    return 227 * 1024;
  }
  return (arch.number == 80 ? 163 : 99) * 1024;
}

/// Threads that a processor holds at once, and registers of 32 bits for them.
constexpr int64_t threadLimit(const engine::CudaArch &arch) {
  return arch.number == 89 ? 1536 : 2048;
}
inline constexpr int64_t kProcessorRegisters = 65536;

} // namespace tenon::dispatch
