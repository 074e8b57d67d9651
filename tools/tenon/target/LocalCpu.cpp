// Relies on /proc/cpuinfo: on x86 it has a name, on Arm numbers of the implementer and the part.

#include "tools/tenon/target/LocalCpu.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/target/CpuInfo.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>

namespace tenon::tool {

uint64_t cacheOfCore() {
  return static_cast<uint64_t>(std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 0l));
}

tuning::Device localCpuDevice() {
  tuning::Device device;
  for (const char *key : {"model name", "vendor_id", "cpu family", "model\t", "CPU implementer",
                          "CPU part", "CPU variant"}) {
    std::string value = cpuInfo(key);
    device.name += value.empty() ? "" : (device.name.empty() ? "" : " ") + value;
  }
  uint64_t last = static_cast<uint64_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0l));
  device.name += fmt::format(", L2 {}, L3 {}", formatBytes(cacheOfCore()), formatBytes(last));
  device.threads = usableCpus();
  for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
    if (runtime::runsHere(row.level)) {
      device.levels.emplace_back(engine::nameOf(row.level));
    }
  }
  return device;
}

} // namespace tenon::tool
