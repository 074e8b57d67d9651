// The processor of this machine, as the system describes it.

#pragma once

#include "compiler/tuning/TuningDatabase.h"

#include <cstdint>

namespace tenon::tool {

/// Bytes of second-level cache of a core; 0 where the system does not say.
uint64_t cacheOfCore();
/// What measurements of kernels on this CPU hold for: the processor, its caches and how many of its
/// threads the process may use.
tuning::Device localCpuDevice();

} // namespace tenon::tool
