// See FakePlan.h.

#include "test/unit/runtime/FakePlan.h"

#include "test/unit/runtime/FakeDriver.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace tenon::test {
namespace {

constexpr std::string_view kClockKernel = "tenon_clock", kReadKernel = "tenon_read";
constexpr long kClockNanoseconds = 20000;
constexpr size_t kWrittenBytes = 4096;

/// Equal ones for equal names.
long nanosecondsOf(std::string_view kernel) {
  if (kernel == kClockKernel || kernel == kReadKernel) {
    return kClockNanoseconds;
  }
  uint64_t hash = 14695981039346656037u;
  for (char c : kernel) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  return static_cast<long>(5000 + hash % 40000);
}

/// Other bytes than memory has that was never written, through the last pointer: a result.
void writeOther(const KernelCall &call) {
  uint64_t last = 0;
  for (uint64_t argument : call.arguments) {
    last = driver().isDevice(argument, 4) ? argument : last;
  }
  if (last != 0) {
    size_t bytes = kWrittenBytes;
    while (!driver().isDevice(last, bytes)) {
      bytes /= 2;
    }
    std::memset(reinterpret_cast<void *>(last), 0x3c, bytes);
  }
}

} // namespace

FakePlan *FakePlan::get() {
  static const char *path = std::getenv("TENON_FAKE_GPU");
  static FakePlan *plan = path ? new FakePlan(path) : nullptr;
  return plan;
}

FakePlan::FakePlan(const std::string &path) {
  std::ifstream file(path);
  for (std::string what; file >> what;) {
    if (what == "slow") {
      Window &window = windows.emplace_back();
      file >> window.first >> window.end >> window.factor;
      continue;
    }
    double microseconds = 0;
    file >> microseconds;
    long kernel = std::lround(microseconds * 1000);
    if (what == "wrong") {
      wrong.insert(kernel);
    } else {
      file >> wholes[kernel];
    }
  }
}

double FakePlan::slowdown() const {
  double factor = 1;
  for (const Window &window : windows) {
    bool isIn = clockLaunches >= window.first && clockLaunches < window.end;
    factor = isIn ? window.factor : factor;
  }
  return factor;
}

int FakePlan::run(const std::string &kernel, size_t kernelsOfModule, const KernelCall &call) {
  clockLaunches += kernel == kClockKernel ? 1 : 0;
  long own = nanosecondsOf(kernel);
  auto whole = wholes.find(own);
  bool isSlower = kernelsOfModule > 2 && whole != wholes.end();
  nanoseconds += static_cast<double>(own) * (isSlower ? whole->second : 1) * slowdown();
  if (wrong.contains(own)) {
    writeOther(call);
  }
  return runtime::cuda::kSuccess;
}

std::chrono::steady_clock::time_point FakePlan::now() const {
  return std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(static_cast<int64_t>(nanoseconds)));
}

} // namespace tenon::test
