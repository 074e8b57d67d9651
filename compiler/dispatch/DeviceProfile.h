// What the cost model knows of a device: rates and sizes. A value; its hash counts as a compile
// option, so that equal options give equal bytes.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::dispatch {

struct DeviceProfile {
  std::string name;
  unsigned cores = 1;
  /// Bytes a second that all cores move together, from memory and from the second-level caches.
  double memoryBandwidth = 0;
  double cacheBandwidth = 0;
  /// Bytes of second-level cache a core.
  int64_t cacheBytes = 0;
  /// FP32 operations a second of all cores together.
  double peak = 0;
  /// Seconds from one kernel to the next.
  double launchSeconds = 0;
};

/// The built-in profile of an x86-64 server with two cores.
DeviceProfile cpuProfile();

/// Every field in a fixed form, for hashing.
std::string describe(const DeviceProfile &profile);

} // namespace tenon::dispatch
