// Lays out buffers with lifetimes in one block of memory so that the block is small: several greedy
// orders, then a bounded search. It relies on nothing; equal inputs give equal offsets everywhere.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace tenon {

/// A buffer that is live in [lower, upper) and needs `size` bytes.
struct PlannedBuffer {
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t size = 0;
  int64_t offset = 0; ///< the result
};

struct OffsetPlannerOptions {
  /// Offsets are multiples of this power of two.
  int64_t alignment = 64;
  /// Steps that the search may take when greedy misses the goal; a count, not a time, so that the
  /// result does not depend on the machine. 0 leaves greedy's result.
  uint64_t nodeLimit = 100000;
  /// Stop as soon as the block is at most this; 0 means the lower bound.
  int64_t goal = 0;
  /// Buffers are kept apart from those that begin up to `rest` after their end too, wherever that
  /// makes the block no larger. Times are then small and not negative.
  int64_t rest = 0;
};

struct OffsetPlan {
  int64_t bytes = 0;      ///< of the block
  int64_t lowerBound = 0; ///< largest sum of (aligned) sizes live at once
  uint64_t nodes = 0;     ///< search steps taken
  bool searched = false;  ///< the search, not greedy, gave the result
};

/// Keeps its working memory from plan to plan, so planning again for as many buffers allocates
/// nothing. Not for use by two threads at once.
class OffsetPlanner {
public:
  OffsetPlanner();
  ~OffsetPlanner();
  OffsetPlanner(OffsetPlanner &&) noexcept;
  OffsetPlanner &operator=(OffsetPlanner &&) noexcept;

  /// Sets each buffer's offset. Sizes are not negative, lower < upper, and the sum of the aligned
  /// sizes fits in int64.
  OffsetPlan plan(std::span<PlannedBuffer> buffers, const OffsetPlannerOptions &options = {});

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tenon
