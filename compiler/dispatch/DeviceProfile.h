// What the cost model knows of a device: rates and sizes. A value; its hash counts as a compile
// option, so that equal options give equal bytes.
#pragma once

#include "engine/CudaArch.h"

#include <cstdint>
#include <string>

namespace tenon::dispatch {

struct DeviceProfile {
  std::string name;
  /// "cpu" or "cuda": the target of the regions; says which rules of Strategy.h hold.
  std::string target = "cpu";
  /// On a GPU, its multiprocessors.
  unsigned cores = 1;
  /// Bytes a second that all cores move together, from memory and from the second-level caches.
  double memoryBandwidth = 0;
  double cacheBandwidth = 0;
  /// Bytes of second-level cache a core.
  int64_t cacheBytes = 0;
  /// FP32 operations a second of all cores together.
  double peak = 0;
  /// Operations a second of products of F16 or BF16 with FP32 sums.
  double halfPeak = 0;
  /// Operations a second of products in generated code, which on a GPU has no tiles of its own.
  double generatedPeak = 0;
  /// Operations a second of such products of F16 or BF16.
  double generatedHalfPeak = 0;
  /// Bytes a second that a library's product moves, and one in generated code.
  double productBandwidth = 0;
  double generatedBandwidth = 0;
  /// Seconds from one kernel to the next.
  double launchSeconds = 0;
  /// Of one multiprocessor: registers of 32 bits, threads, bytes of shared memory, and bytes that
  /// it must have asked for at any time to read memory at its rate.
  int64_t registers = 0;
  int64_t threads = 0;
  int64_t sharedBytes = 0;
  int64_t bytesOnTheWay = 0;
  /// Whether four warps together multiply matrices (codegen/cuda/base/Warpgroup.h).
  bool hasWarpgroups = false;

  bool isGpu() const { return target == "cuda"; }
};

/// The built-in profile of an x86-64 server with two cores.
DeviceProfile cpuProfile();
/// The built-in profile of one NVIDIA H200, with what a multiprocessor of `arch` holds.
DeviceProfile cudaProfile(const engine::CudaArch &arch = *engine::parseCudaArch("sm_90"));

/// Every field in a fixed form, for hashing.
std::string describe(const DeviceProfile &profile);

} // namespace tenon::dispatch
