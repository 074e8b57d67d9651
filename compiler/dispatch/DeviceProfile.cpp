// The built-in device profiles. Relies on nothing but the measured numbers below.
#include "compiler/dispatch/DeviceProfile.h"

#include "compiler/dispatch/ArchLimits.h"
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
          .generatedHalfPeak = 200e9,
          .productBandwidth = 60e9,
          .generatedBandwidth = 60e9,
          .launchSeconds = 1e-6};
}

// Products of half floats with a bias and a clamp, of 6,272 to 1,605,632 rows and depths of 16 to
// 160: generated ones move 0.87 to 1.35 TB/s or do 110 TFLOP/s, calls of a library 1.5 to 1.69 TB/s
// with a pass for the clamp behind them.
//
// Bytes on the way: copies whose multiprocessors ask for 4, 8, 12, 16 and 24 KiB at once run at
// 1.38, 2.3, 3.13, 3.4 and 3.85 TB/s, as if reading (half of them) needed 20 KiB; one block of 256
// threads is as good as eight where each thread asks for enough (4.00 TB/s with 152 registers).
DeviceProfile cudaProfile(const engine::CudaArch &arch) {
  return {.name = "NVIDIA H200",
          .target = "cuda",
          .cores = 132,
          .memoryBandwidth = 4.3e12,
          .cacheBandwidth = 5.5e12,
          .cacheBytes = (60 << 20) / 132,
          .peak = 60e12,
          .halfPeak = 700e12,
          .generatedPeak = 5e12,
          .generatedHalfPeak = 110e12,
          .productBandwidth = 1.6e12,
          .generatedBandwidth = 1.2e12,
          .launchSeconds = 1e-6,
          .registers = kProcessorRegisters,
          .threads = threadLimit(arch),
          .sharedBytes = sharedLimit(arch),
          .bytesOnTheWay = 20 << 10,
          .hasWarpgroups = hasWarpgroups(arch)};
}

std::string describe(const DeviceProfile &profile) {
  std::string text =
      strCat(profile.name, ' ', profile.target, ' ', profile.cores, ' ', profile.cacheBytes, ' ',
             static_cast<int64_t>(profile.launchSeconds * 1e9), ' ', profile.registers, ' ',
             profile.threads, ' ', profile.sharedBytes, ' ', profile.bytesOnTheWay, ' ',
             profile.hasWarpgroups);
  for (double rate : {profile.memoryBandwidth, profile.cacheBandwidth, profile.peak,
                      profile.halfPeak, profile.generatedPeak, profile.generatedHalfPeak,
                      profile.productBandwidth, profile.generatedBandwidth}) {
    text += strCat(' ', static_cast<int64_t>(rate));
  }
  return text;
}

} // namespace tenon::dispatch
