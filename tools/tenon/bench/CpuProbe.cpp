// Small loops, the best of a few rounds each: sums of vectors that lie in memory or in caches, the
// arithmetic units (CpuUnits.h), and empty tasks of the runtime's own pool.

#include "tools/tenon/bench/CpuProbe.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "support/threads/ThreadPool.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>

#include <unistd.h>

namespace tenon::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kUnknownCache = size_t(1) << 20;
/// Of a last-level cache, which others share, at most so much is counted on.
constexpr size_t kMaxOfLastCache = size_t(16) << 20;
constexpr int kMeetings = 200;

typedef float Half __attribute__((vector_size(32), aligned(32)));

__attribute__((target("avx2,fma"))) void sum(const Half *data, size_t count) {
  Half sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    for (size_t j = 0; j < 8; ++j) {
      sums[j] += data[i + j];
    }
  }
  use(sums);
}

/// Rounds, of which the best counts: so many at least, and more until several are as fast as that,
/// as long as they are short. What others leave of a busy machine is in few of them.
class Rounds {
public:
  explicit Rounds(int least) : fewest(least) {}

  void add(double seconds) {
    best = count == 0 ? seconds : std::min(best, seconds);
    near = seconds > kNear * best                        ? near
           : count > 0 && seconds * kNear < previousBest ? 1
                                                         : near + 1;
    previousBest = best;
    spent += seconds;
    ++count;
  }
  bool isEnough() const { return count >= fewest && (near >= kAlike || spent >= kMaxSeconds); }
  double least() const { return best; }

private:
  static constexpr double kNear = 1.02, kMaxSeconds = 0.1;
  static constexpr int kAlike = 3;
  int fewest, count = 0, near = 0;
  double best = 0, previousBest = 0, spent = 0;
};

/// Least seconds in which every thread has done `work` once: of a round those of the slowest, each
/// by its own clock, as the last to wake up starts late.
double bestSeconds(const CpuProbeRequest &request, const std::function<void(unsigned)> &work) {
  Rounds rounds(request.rounds);
  std::vector<double> own(request.threads);
  std::barrier start(request.threads);
  std::barrier end(request.threads, [&]() noexcept { rounds.add(*std::ranges::max_element(own)); });
  std::vector<std::jthread> pool;
  for (unsigned thread = 0; thread < request.threads; ++thread) {
    pool.emplace_back([&, thread] {
      do {
        start.arrive_and_wait();
        Clock::time_point began = Clock::now();
        work(thread);
        own[thread] = std::chrono::duration<double>(Clock::now() - began).count();
        end.arrive_and_wait();
      } while (!rounds.isEnough());
    });
  }
  pool.clear();
  return rounds.least();
}

/// Bytes a second that threads read of `each` bytes of their own, `times` over.
double readRate(const CpuProbeRequest &request, size_t each, size_t times) {
  size_t count = each / sizeof(Half);
  std::vector<std::vector<Half>> data(request.threads);
  double seconds = bestSeconds(request, [&](unsigned thread) {
    if (data[thread].empty()) {
      data[thread].assign(count, Half{}); // by the thread that reads it: near to it
    }
    for (size_t i = 0; i < times; ++i) {
      sum(data[thread].data(), count);
    }
  });
  return static_cast<double>(request.threads * count * sizeof(Half) * times) / seconds;
}

void probeCaches(const CpuProbeRequest &request, CpuProbe &probe) {
  probe.cacheOfCore = std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 0l);
  probe.lastCache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0l);
  // Half of it, which is more than the first level has.
  size_t second = (probe.cacheOfCore > 0 ? static_cast<size_t>(probe.cacheOfCore) : kUnknownCache);
  size_t reads = request.cacheReads / request.threads;
  probe.cacheBytes = readRate(request, second / 2, std::max<size_t>(reads / (second / 2), 1));
  size_t last =
      std::min(static_cast<size_t>(probe.lastCache) / 2, kMaxOfLastCache) / request.threads;
  if (last > 2 * second) {
    probe.lastCacheBytes = readRate(request, last, std::max<size_t>(reads / 4 / last, 2));
  }
}

void probeUnits(const CpuProbeRequest &request, CpuProbe &probe) {
  uint32_t features = runtime::hostFeatures();
  for (const CpuUnit &unit : cpuUnits()) {
    if ((unit.features & ~features) == 0 && runtime::acquireFeatures(unit.features)) {
      double seconds = bestSeconds(request, [&](unsigned) { unit.loop(); });
      probe.units.push_back({&unit, unit.operations * request.threads / seconds});
    }
  }
}

Result<double> probeMeeting(const CpuProbeRequest &request) {
  TENON_ASSIGN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(request.threads));
  ThreadPool::Caller caller(*pool);
  Rounds rounds(request.rounds + 1);
  while (!rounds.isEnough()) {
    Clock::time_point start = Clock::now();
    for (int i = 0; i < kMeetings; ++i) {
      pool->parallelFor(request.threads, [](int64_t, int64_t, unsigned) {});
    }
    rounds.add(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return rounds.least() / kMeetings;
}

} // namespace

const UnitRate *CpuProbe::best(Numbers numbers, uint32_t features) const {
  const UnitRate *fastest = nullptr;
  for (const UnitRate &rate : units) {
    bool isOf = rate.unit->numbers == numbers && (rate.unit->features & ~features) == 0;
    fastest = isOf && (!fastest || rate.operations > fastest->operations) ? &rate : fastest;
  }
  return fastest;
}

Result<CpuProbe> probeCpu(const CpuProbeRequest &asked) {
  CpuProbeRequest request = asked;
  request.threads = asked.threads > 0 ? asked.threads : usableCpus();
  CpuProbe probe;
  probe.threads = request.threads;
  probe.memoryBytes = readRate(request, request.memoryBytes / request.threads, 1);
  probeCaches(request, probe);
  probeUnits(request, probe);
  TENON_ASSIGN(probe.meetSeconds, probeMeeting(request));
  return probe;
}

} // namespace tenon::tool
