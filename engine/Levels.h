// The architectures of an engine's variants and its ranks, for those who must know where an engine
// runs and do not open it.

#pragma once

#include "engine/Level.h"
#include "support/Result.h"

#include <cstdint>
#include <vector>

namespace tenon::engine {

struct EngineTargets {
  std::vector<Architecture> architectures; ///< of each variant
  uint32_t ranks = 1;                      ///< of its plans
};

/// Reads header, section table and manifest of the file behind `descriptor`, which may be anything;
/// the rest is neither read nor checked. Moves no file offset.
Result<EngineTargets> readTargets(int descriptor);

} // namespace tenon::engine
