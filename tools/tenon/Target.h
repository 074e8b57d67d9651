// The targets of the command line: `cpu` for every level, `cpu:avx2,avx512` for some, `cuda:sm_90`
// for a GPU; several are joined by commas or given one by one.

#pragma once

#include "engine/CpuLevel.h"
#include "engine/CudaArch.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// What an engine gets variants for: levels worst first, architectures oldest first, each once.
struct Targets {
  std::vector<engine::CpuLevel> levels;
  std::vector<engine::CudaArch> archs;
};

/// All CPU levels, which is the target when none is named.
std::vector<engine::CpuLevel> allLevels();
Result<Targets> parseTargets(const std::vector<std::string> &texts);

} // namespace tenon::tool
