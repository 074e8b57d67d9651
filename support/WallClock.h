// The time of day, as histories, replies and events have it.

#pragma once

#include <chrono>
#include <cstdint>

namespace tenon {

/// Milliseconds since 1970.
inline int64_t wallClock() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

} // namespace tenon
