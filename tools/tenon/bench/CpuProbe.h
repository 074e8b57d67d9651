// What this machine's CPU reaches with all threads that the process may use.

#pragma once

#include <cstdint>

namespace tenon::tool {

struct CpuProbe {
  unsigned threads = 1;
  double memoryBytes = 0;   ///< read a second from memory
  double cacheBytes = 0;    ///< read a second from second-level caches
  int64_t cacheOfCore = 0;  ///< bytes of second-level cache; 0 if the system does not say
  double fp32Operations = 0; ///< a second, a fused multiply-add counting as two
};

/// Relies on AVX2 and FMA, which Tenon needs anyway.
CpuProbe probeCpu();

} // namespace tenon::tool
