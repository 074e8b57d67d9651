// Implements the peak by the kernel's own high-water mark, which is put back first.

#include "tools/tenon/accuracy/Memory.h"

#include <fstream>
#include <string>

namespace tenon::tool {
namespace {

/// Bytes of a line of /proc/self/status: "VmHWM:     1234 kB".
uint64_t statusBytes(const std::string &key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  uint64_t kilobytes = 0;
  while (file >> word) {
    if (word == key && file >> kilobytes) {
      return kilobytes * 1024;
    }
  }
  return 0;
}

} // namespace

uint64_t peakMemoryOf(const std::function<void()> &work) {
  constexpr const char *kPutBackHighWater = "5";
  std::ofstream("/proc/self/clear_refs") << kPutBackHighWater;
  uint64_t before = statusBytes("VmRSS:");
  work();
  uint64_t peak = statusBytes("VmHWM:");
  return peak > before ? peak - before : 0;
}

} // namespace tenon::tool
