// The built-in device profiles. Relies on nothing but the measured numbers below.
#include "compiler/dispatch/DeviceProfile.h"

#include "support/Text.h"

namespace tenon::dispatch {

DeviceProfile cpuProfile() {
  return {.name = "x86-64, 2 cores",
          .cores = 2,
          .memoryBandwidth = 60e9,
          .cacheBandwidth = 200e9,
          .cacheBytes = 1 << 20,
          .peak = 200e9,
          .launchSeconds = 1e-6};
}

std::string describe(const DeviceProfile &profile) {
  return strCat(
      profile.name, ' ', profile.cores, ' ', static_cast<int64_t>(profile.memoryBandwidth), ' ',
      static_cast<int64_t>(profile.cacheBandwidth), ' ', profile.cacheBytes, ' ',
      static_cast<int64_t>(profile.peak), ' ', static_cast<int64_t>(profile.launchSeconds * 1e9));
}

} // namespace tenon::dispatch
