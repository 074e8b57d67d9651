// Greedy layouts in several orders, the best kept; the search runs only when greedy missed the
// goal. Works on aligned sizes, so that every offset is aligned.

#include "support/memory/OffsetPlanner.h"

#include "support/memory/OffsetSearch.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tenon {
namespace {

enum class Order { Size, Area, Lifetime, Start };
constexpr Order kOrders[] = {Order::Size, Order::Area, Order::Lifetime, Order::Start};

/// Larger keys are placed first.
__int128 orderKey(Order order, const PlannedBuffer &buffer) {
  int64_t lifetime = buffer.upper - buffer.lower;
  switch (order) {
  case Order::Size:
    return buffer.size;
  case Order::Area:
    return static_cast<__int128>(buffer.size) * lifetime;
  case Order::Lifetime:
    return lifetime;
  case Order::Start:
    return -static_cast<__int128>(buffer.lower);
  }
  return 0;
}

bool liveTogether(const PlannedBuffer &a, const PlannedBuffer &b) {
  return a.lower < b.upper && b.lower < a.upper;
}

} // namespace

struct OffsetPlanner::Impl {
  struct Event {
    int64_t time;
    int64_t change;
  };

  std::vector<PlannedBuffer> work;
  std::vector<int64_t> best;
  std::vector<uint32_t> order;
  std::vector<uint32_t> placed; ///< indices by offset
  std::vector<Event> events;
  OffsetSearch search;

  int64_t lowerBound() {
    events.clear();
    for (const PlannedBuffer &buffer : work) {
      events.push_back({buffer.lower, buffer.size});
      events.push_back({buffer.upper, -buffer.size});
    }
    // At one time, ends come before starts: lifetimes are half open.
    std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
      return a.time != b.time ? a.time < b.time : a.change < b.change;
    });
    int64_t live = 0;
    int64_t most = 0;
    for (const Event &event : events) {
      live += event.change;
      most = std::max(most, live);
    }
    return most;
  }

  /// Lowest offset (or with `bestFit` the tightest gap) where `buffer` is clear of those placed.
  int64_t findOffset(const PlannedBuffer &buffer, bool bestFit) const {
    int64_t cursor = 0;
    int64_t bestOffset = -1;
    int64_t bestGap = INT64_MAX;
    for (uint32_t index : placed) {
      const PlannedBuffer &other = work[index];
      if (!liveTogether(buffer, other)) {
        continue;
      }
      int64_t gap = other.offset - cursor;
      if (gap >= buffer.size && gap < bestGap) {
        bestGap = gap;
        bestOffset = cursor;
        if (!bestFit) {
          return bestOffset;
        }
      }
      cursor = std::max(cursor, other.offset + other.size);
    }
    return bestOffset >= 0 ? bestOffset : cursor;
  }

  int64_t placeGreedily(Order by, bool bestFit) {
    order.resize(work.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      __int128 keyA = orderKey(by, work[a]);
      __int128 keyB = orderKey(by, work[b]);
      if (keyA != keyB) {
        return keyA > keyB;
      }
      return work[a].size != work[b].size ? work[a].size > work[b].size : a < b;
    });
    placed.clear();
    int64_t bytes = 0;
    for (uint32_t index : order) {
      PlannedBuffer &buffer = work[index];
      buffer.offset = findOffset(buffer, bestFit);
      bytes = std::max(bytes, buffer.offset + buffer.size);
      placed.insert(
          std::upper_bound(placed.begin(), placed.end(), index,
                           [&](uint32_t a, uint32_t b) { return work[a].offset < work[b].offset; }),
          index);
    }
    return bytes;
  }

  void keep() {
    best.resize(work.size());
    for (size_t i = 0; i < work.size(); ++i) {
      best[i] = work[i].offset;
    }
  }

  void greedy(OffsetPlan &result, int64_t goal) {
    result.bytes = INT64_MAX;
    for (Order by : kOrders) {
      for (bool bestFit : {false, true}) {
        int64_t bytes = placeGreedily(by, bestFit);
        if (bytes < result.bytes) {
          result.bytes = bytes;
          keep();
        }
        if (result.bytes <= goal) {
          return;
        }
      }
    }
  }

  /// Lengthens lives by up to `rest` as long as what is live at once fits into `room`.
  void lengthen(int64_t rest, int64_t room) {
    int64_t end = 0;
    for (const PlannedBuffer &buffer : work) {
      end = std::max(end, buffer.upper);
    }
    std::vector<int64_t> live(static_cast<size_t>(end), 0);
    for (const PlannedBuffer &buffer : work) {
      for (int64_t time = buffer.lower; time < buffer.upper; ++time) {
        live[static_cast<size_t>(time)] += buffer.size;
      }
    }
    // One time each in turn: a short rest of all is worth more than a long one of the first.
    for (int64_t turn = 0; turn < rest; ++turn) {
      for (PlannedBuffer &buffer : work) {
        size_t time = static_cast<size_t>(buffer.upper);
        if (buffer.upper < end && live[time] + buffer.size <= room) {
          live[time] += buffer.size;
          ++buffer.upper;
        }
      }
    }
  }

  /// Lays longer lives out anew, first those that fill the block at every time, then looser ones,
  /// until they need no larger block.
  void keepApart(OffsetPlan &result, int64_t rest) {
    constexpr int64_t kParts = 8;
    std::vector<PlannedBuffer> own = work;
    std::vector<int64_t> offsets = best;
    for (int64_t part = kParts; part > kParts / 2; --part) {
      work = own;
      lengthen(rest, result.bytes / kParts * part);
      OffsetPlan longer;
      greedy(longer, result.bytes);
      if (longer.bytes <= result.bytes) {
        result.bytes = longer.bytes;
        return;
      }
    }
    best = std::move(offsets);
  }

  /// Half of the steps go to the goal itself, the others to capacities between it and the best.
  void improve(OffsetPlan &result, int64_t goal, int64_t alignment, uint64_t nodeLimit) {
    constexpr int kAttempts = 6;
    int64_t low = goal;
    for (int attempt = 0; attempt < kAttempts && low < result.bytes; ++attempt) {
      int64_t capacity = low;
      if (attempt != 0) {
        capacity = low + (result.bytes - low) / 2 / alignment * alignment;
        if (capacity == low) {
          return;
        }
      }
      uint64_t budget = attempt == 0 ? nodeLimit / 2 : nodeLimit / 2 / (kAttempts - 1);
      uint64_t left = budget;
      if (search.fit(work, capacity, alignment, left)) {
        result.bytes = 0;
        for (const PlannedBuffer &buffer : work) {
          result.bytes = std::max(result.bytes, buffer.offset + buffer.size);
        }
        result.searched = true;
        keep();
      } else {
        low = capacity;
      }
      result.nodes += budget - left;
    }
  }
};

OffsetPlanner::OffsetPlanner() : impl(std::make_unique<Impl>()) {}
OffsetPlanner::~OffsetPlanner() = default;
OffsetPlanner::OffsetPlanner(OffsetPlanner &&) noexcept = default;
OffsetPlanner &OffsetPlanner::operator=(OffsetPlanner &&) noexcept = default;

OffsetPlan OffsetPlanner::plan(std::span<PlannedBuffer> buffers,
                               const OffsetPlannerOptions &options) {
  OffsetPlan result;
  if (buffers.empty()) {
    return result;
  }
  Impl &state = *impl;
  state.work.assign(buffers.begin(), buffers.end());
  for (PlannedBuffer &buffer : state.work) {
    buffer.size = (buffer.size + options.alignment - 1) & ~(options.alignment - 1);
  }
  result.lowerBound = state.lowerBound();
  int64_t goal = std::max(options.goal, result.lowerBound);
  state.greedy(result, goal);
  if (result.bytes > goal && options.nodeLimit != 0) {
    state.improve(result, goal, options.alignment, options.nodeLimit);
  }
  if (options.rest != 0) {
    state.keepApart(result, options.rest);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    buffers[i].offset = state.best[i];
  }
  return result;
}

} // namespace tenon
