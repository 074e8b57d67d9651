// The targets of the command line: `cpu` for every level, `cpu:avx2,avx512` for some.

#pragma once

#include "engine/CpuLevel.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// The levels that a target asks for, worst first.
Result<std::vector<engine::CpuLevel>> parseTarget(const std::string &target);

} // namespace tenon::tool
