// Small loops, the best of a few rounds each: sums of vectors that lie in memory or in caches, and
// chains of multiply-adds in registers.

#include "tools/tenon/bench/CpuProbe.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "support/threads/ThreadPool.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include <unistd.h>

namespace tenon::tool {
namespace {

constexpr int kRounds = 5;
/// Of all threads together: more than any last-level cache.
constexpr size_t kMemoryBytes = size_t(1) << 30;
constexpr size_t kUnknownCache = size_t(1) << 20;
/// Loads of caches, and multiply-adds, of one round.
constexpr size_t kCacheReads = size_t(1) << 31;
constexpr size_t kAdds = size_t(1) << 24;
/// Chains that hide the latency of a multiply-add: 4 or 5 cycles, two a cycle.
constexpr size_t kChains = 12;

typedef float Wide __attribute__((vector_size(64), aligned(64)));
typedef float Half __attribute__((vector_size(32), aligned(32)));

/// Keeps the compiler from leaving out what makes `value`.
template <typename T> void use(T &value) { asm volatile("" : "+m"(value) : : "memory"); }

__attribute__((target("avx2,fma"))) void sum(const Half *data, size_t count) {
  Half sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    for (size_t j = 0; j < 8; ++j) {
      sums[j] += data[i + j];
    }
  }
  use(sums);
}

__attribute__((target("avx2,fma"))) void multiplyAddHalf(float by) {
  Half sums[kChains] = {};
  Half factor = {};
  factor += by;
  for (size_t i = 0; i < kAdds; ++i) {
    for (Half &value : sums) {
      value = value * factor + factor;
    }
  }
  use(sums);
}

__attribute__((target("avx512f"))) void multiplyAddWide(float by) {
  Wide sums[kChains] = {};
  Wide factor = {};
  factor += by;
  for (size_t i = 0; i < kAdds; ++i) {
    for (Wide &value : sums) {
      value = value * factor + factor;
    }
  }
  use(sums);
}

/// Least seconds in which every thread has done `work` once.
double bestSeconds(unsigned threads, const std::function<void(unsigned)> &work) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  Clock::time_point start;
  int round = 0;
  // Entered with all threads waiting: first when a round starts, then when it ends.
  bool runs = false;
  std::barrier meet(threads, [&]() noexcept {
    if (runs) {
      double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      best = round++ == 0 ? seconds : std::min(best, seconds);
    } else {
      start = Clock::now();
    }
    runs = !runs;
  });
  std::vector<std::jthread> pool;
  for (unsigned thread = 0; thread < threads; ++thread) {
    pool.emplace_back([&, thread] {
      for (int i = 0; i < kRounds; ++i) {
        meet.arrive_and_wait();
        work(thread);
        meet.arrive_and_wait();
      }
    });
  }
  pool.clear();
  return best;
}

/// Bytes a second that threads read of `each` bytes of their own, `times` over.
double readRate(unsigned threads, size_t each, size_t times) {
  size_t count = each / sizeof(Half);
  std::vector<std::vector<Half>> data(threads);
  double seconds = bestSeconds(threads, [&](unsigned thread) {
    if (data[thread].empty()) {
      data[thread].assign(count, Half{}); // by the thread that reads it: near to it
    }
    for (size_t i = 0; i < times; ++i) {
      sum(data[thread].data(), count);
    }
  });
  return static_cast<double>(threads * count * sizeof(Half) * times) / seconds;
}

} // namespace

CpuProbe probeCpu() {
  CpuProbe probe;
  probe.threads = usableCpus();
  probe.memoryBytes = readRate(probe.threads, kMemoryBytes / probe.threads, 1);
  long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  probe.cacheOfCore = std::max(cache, 0l);
  // Half of it, which is more than the first level has.
  size_t each = (cache > 0 ? static_cast<size_t>(cache) : kUnknownCache) / 2;
  probe.cacheBytes = readRate(probe.threads, each, kCacheReads / each);
  bool isWide = floatLanes(runtime::bestCpuLevel().value_or(engine::CpuLevel::X86_64_V3)) >= 16;
  double seconds = bestSeconds(probe.threads, [&](unsigned) {
    if (isWide) {
      multiplyAddWide(0.5f);
    } else {
      multiplyAddHalf(0.5f);
    }
  });
  size_t lanes = (isWide ? sizeof(Wide) : sizeof(Half)) / sizeof(float);
  probe.fp32Operations = static_cast<double>(2 * kAdds * kChains * lanes * probe.threads) / seconds;
  return probe;
}

} // namespace tenon::tool
