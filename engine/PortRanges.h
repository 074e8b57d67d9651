// The least and greatest dims of a port, over all values of the plan's symbols.

#pragma once

#include "engine/Plan.h"

#include <cstdint>
#include <vector>

namespace tenon::engine {

/// A value for each dim.
struct PortRanges {
  std::vector<int64_t> least;
  std::vector<int64_t> most;
};

PortRanges rangesOf(const Plan &plan, const Port &port);

} // namespace tenon::engine
