// The targets of the command line: `cpu` for every level, `cpu:avx2,avx512` for some, `cuda:sm_90`
// for a GPU; several are joined by commas or given one by one. A level is called the same wherever one
// is named: as engines and `doctor` have it, or avx2 for x86-64-v3.

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
/// The name in an engine of a level or architecture: `avx2`, `cpu:avx2`, `sm_90` or `cuda:sm_90`.
Result<std::string> parseVariant(const std::string &text);
Result<Targets> parseTargets(const std::vector<std::string> &texts);

} // namespace tenon::tool
