// Relies on Linux counting waits in schedstat, thread by thread.

#include "tools/tenon/bench/NoiseProbe.h"

#include "tools/tenon/bench/CpuUnits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tenon::tool {

double waitedForCpu() {
  double nanoseconds = 0;
  std::error_code error;
  for (const std::filesystem::directory_entry &task :
       std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "schedstat");
    double running = 0, waiting = 0;
    nanoseconds += file >> running >> waiting ? waiting : 0;
  }
  return nanoseconds * 1e-9;
}

double noiseProbeSeconds() {
  if (cpuUnits().empty()) {
    return 0;
  }
  BenchClock::time_point start = BenchClock::now();
  cpuUnits().front().loop();
  return millisecondsSince(start) / 1000;
}

RoundWatch::Seen RoundWatch::end(unsigned threads) const {
  double threadSeconds = millisecondsSince(start) / 1000 * threads;
  double waited = (waitedForCpu() - waitedBefore) / threadSeconds;
  return {waited, std::max(before, noiseProbeSeconds())};
}

} // namespace tenon::tool
