// The first GPU of this machine as a target.

#pragma once

#include "compiler/target/Target.h"
#include "compiler/tuning/TuningDatabase.h"
#include "support/Result.h"

#include <cstdint>

namespace tenon::tool {

/// The named part by the name that the driver gives it, else the architecture's row; with the
/// multiprocessors and caches that the driver counts. An error says why there is none.
Result<target::Target> localGpu();
/// What measurements of kernels on the first GPU hold for: the part, its multiprocessors, memory
/// and driver, and the libraries that are called there. EngineNoVariant says why there is none.
Result<tuning::Device> localGpuDevice();
/// Bytes of the second-level cache of the first GPU.
Result<uint64_t> cacheOfGpu();
/// Bytes that are free on it, once this process has a context there.
Result<uint64_t> freeGpuMemory();

} // namespace tenon::tool
