// How much memory the work of a process takes at its peak.

#pragma once

#include <cstdint>
#include <functional>

namespace tenon::tool {

/// Bytes by which the resident memory of this process grew at most while `work` ran, files that are
/// mapped included. It relies on /proc; 0 without one.
uint64_t peakMemoryOf(const std::function<void()> &work);

} // namespace tenon::tool
