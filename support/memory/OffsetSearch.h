// The search behind OffsetPlanner: decides whether buffers fit in a given block by trying canonical
// layouts depth first, with restarts that learn. Private to support/.

#pragma once

#include "support/memory/OffsetPlanner.h"

#include <memory>
#include <span>

namespace tenon {

class OffsetSearch {
public:
  OffsetSearch();
  ~OffsetSearch();

  /// All sizes and the capacity are multiples of `unit`, no size above the capacity. On success
  /// sets the offsets and returns true; false when no layout was found before `nodes` ran out,
  /// which counts down.
  bool fit(std::span<PlannedBuffer> buffers, int64_t capacity, int64_t unit, uint64_t &nodes);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tenon
