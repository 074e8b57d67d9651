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
          .halfPeak = 200e9,
          .generatedPeak = 200e9,
          .launchSeconds = 1e-6};
}

DeviceProfile cudaProfile() {
  return {.name = "NVIDIA H200",
          .target = "cuda",
          .cores = 132,
          .memoryBandwidth = 4.3e12,
          .cacheBandwidth = 5.5e12,
          .cacheBytes = (60 << 20) / 132,
          .peak = 60e12,
          .halfPeak = 700e12,
          .generatedPeak = 5e12,
          .launchSeconds = 1e-6};
}

std::string describe(const DeviceProfile &profile) {
  std::string text =
      strCat(profile.name, ' ', profile.target, ' ', profile.cores, ' ', profile.cacheBytes, ' ',
             static_cast<int64_t>(profile.launchSeconds * 1e9));
  for (double rate : {profile.memoryBandwidth, profile.cacheBandwidth, profile.peak,
                      profile.halfPeak, profile.generatedPeak}) {
    text += strCat(' ', static_cast<int64_t>(rate));
  }
  return text;
}

} // namespace tenon::dispatch
