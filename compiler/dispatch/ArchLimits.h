// What a kernel's layout and its occupancy depend on of an NVIDIA architecture, from its row of the
// table of targets: codegen lays out by it.
#pragma once

#include "compiler/target/Target.h"

namespace tenon::dispatch {

/// Streaming multiprocessors.
inline int64_t processors(const engine::CudaArch &arch) { return target::targetOf(arch).cores; }

/// Whether four warps together multiply matrices (codegen/cuda/base/Warpgroup.h): on one
/// architecture.
inline bool hasWarpgroups(const engine::CudaArch &arch) {
  return target::targetOf(arch).has(target::Feature::WarpgroupMma);
}
inline bool hasClusters(const engine::CudaArch &arch) {
  return target::targetOf(arch).has(target::Feature::Clusters);
}

/// Bytes of shared memory that a block may have.
inline int64_t sharedLimit(const engine::CudaArch &arch) {
  return target::targetOf(arch).sharedBytes;
}

/// Registers of 32 bits of a multiprocessor, of every architecture.
inline constexpr int64_t kProcessorRegisters = 65536;

} // namespace tenon::dispatch
