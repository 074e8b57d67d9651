// The search behind OffsetPlanner: decides whether buffers fit in a given block by trying canonical
// layouts depth first. Private to support/.

#pragma once

#include "support/OffsetPlanner.h"

#include <memory>
#include <span>

namespace tenon {

class OffsetSearch {
public:
  OffsetSearch();
  ~OffsetSearch();

  /// Sizes are multiples of one unit already. On success sets the offsets and returns true; false
  /// when there is no layout within `capacity` or `nodes` ran out. `nodes` counts down.
  bool fit(std::span<PlannedBuffer> buffers, int64_t capacity, uint64_t &nodes);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tenon
