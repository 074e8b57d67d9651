// How far something has come that a client sends or takes, and whether that is too slow: one rule
// for bodies, messages and replies of every protocol.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tenon::server {

/// The client is slower than this, in bytes a second: it holds memory longer than it is worth.
constexpr uint64_t kMinRate = 32 << 10;

struct Progress {
  using Clock = std::chrono::steady_clock;

  Clock::time_point start = Clock::now(), last = start;
  uint64_t moved = 0; ///< bytes since `start`, the last of them at `last`

  void add(uint64_t bytes) {
    moved += bytes;
    last = Clock::now();
  }
  /// By when more must move: within `timeout` of the last, and as a whole at kMinRate.
  Clock::time_point deadline(Clock::duration timeout) const {
    return std::min(last + timeout, start + timeout + std::chrono::seconds(moved / kMinRate));
  }
};

} // namespace tenon::server
