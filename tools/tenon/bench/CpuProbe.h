// What this machine's CPU reaches: reads of memory and of caches, its arithmetic units, and how
// fast threads meet.

#pragma once

#include "support/Result.h"
#include "tools/tenon/bench/CpuUnits.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::tool {

struct CpuProbeRequest {
  unsigned threads = 0; ///< 0 for all that the process may use
  int rounds = 5;       ///< of each loop, of which the best counts
  /// Read in a round, of all threads together; of memory more than any last-level cache.
  size_t memoryBytes = size_t(1) << 30;
  size_t cacheReads = size_t(1) << 32;
};

struct UnitRate {
  const CpuUnit *unit = nullptr;
  double operations = 0; ///< a second
};

/// Of all threads together.
struct CpuProbe {
  unsigned threads = 1;
  double memoryBytes = 0; ///< read a second from memory
  double lastCacheBytes =
      0; ///< read a second from the last-level cache; 0 where there is none behind the second
  double cacheBytes = 0;       ///< read a second from second-level caches
  int64_t lastCache = 0;       ///< bytes of the last-level cache; 0 if the system does not say
  int64_t cacheOfCore = 0;     ///< bytes of second-level cache; 0 if the system does not say
  std::vector<UnitRate> units; ///< those that the machine has
  double meetSeconds = 0;      ///< from giving an empty task to all threads until all are through

  /// The best rate of a kind of numbers by units of these features; 0 where none is measured.
  const UnitRate *best(Numbers numbers, uint32_t features) const;
};

/// Relies on AVX2 and FMA, which Tenon needs anyway.
Result<CpuProbe> probeCpu(const CpuProbeRequest &request = {});

} // namespace tenon::tool
