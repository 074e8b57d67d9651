// Places the arena buffers of a plan; see Arena.cpp.
#pragma once

#include "engine/Plan.h"

namespace tenon::plan {

struct ArenaSummary {
  int64_t bytes = 0;
  int64_t lowerBound = 0; ///< the largest sum of sizes live at once
  bool isStatic = false;
  /// The value of each symbol that bytes and lowerBound are for: the smallest.
  std::vector<int64_t> symbols;
  /// By buffer: its bytes and offset at those symbols; -1 for what is not in the arena.
  std::vector<int64_t> sizes;
  std::vector<int64_t> offsets;
};

/// Sets the offsets and the size of the arena if all sizes are constant; else leaves them to the
/// runtime and lays out the smallest shape for the summary only.
ArenaSummary layOutArena(engine::Plan &plan);

/// Where the arena of a plan for a GPU lies at a common size: each symbol at 128, or the nearest
/// size allowed. Of offsets that are set only these and the symbols.
ArenaSummary layOutCommon(const engine::Plan &plan);

} // namespace tenon::plan
