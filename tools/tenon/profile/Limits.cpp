// Puts the probes of bench/ into one form for both kinds of devices.

#include "tools/tenon/profile/Limits.h"

#include "tools/tenon/bench/CpuProbe.h"
#include "tools/tenon/bench/GpuBench.h"
#include "tools/tenon/target/LocalGpu.h"

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

/// Shorter loops than those of doctor --calibrate: a profile answers within seconds.
constexpr int kRounds = 3;
constexpr size_t kCacheReads = size_t(1) << 29;
constexpr size_t kMemoryBytes = size_t(1) << 28;
constexpr int kFirstWithFloat8 = 89;

} // namespace

const ComputeLimit *Limits::best(Numbers numbers, uint32_t features) const {
  const ComputeLimit *fastest = nullptr;
  for (const ComputeLimit &limit : compute) {
    bool isOf = limit.numbers == numbers && (limit.features & ~features) == 0;
    fastest = isOf && (!fastest || limit.operations > fastest->operations) ? &limit : fastest;
  }
  return fastest || numbers == Numbers::F32 ? fastest : best(Numbers::F32, features);
}

const MemoryLimit &Limits::holding(double bytes) const {
  for (const MemoryLimit &limit : memory) {
    if (bytes <= limit.capacity) {
      return limit;
    }
  }
  return memory.back();
}

void Limits::take(const Limits &other) {
  for (size_t i = 0; i < compute.size() && i < other.compute.size(); ++i) {
    compute[i].operations = std::max(compute[i].operations, other.compute[i].operations);
  }
  for (size_t i = 0; i < memory.size() && i < other.memory.size(); ++i) {
    memory[i].bytes = std::max(memory[i].bytes, other.memory[i].bytes);
  }
  launchSeconds = std::min(launchSeconds, other.launchSeconds);
}

void Limits::raise(std::string_view limit, double times) {
  for (ComputeLimit &each : compute) {
    each.operations *= each.unit == limit ? times : 1;
  }
  for (MemoryLimit &each : memory) {
    each.bytes *= each.level == limit ? times : 1;
  }
}

Result<Limits> measureCpuLimits(unsigned threads) {
  TENON_ASSIGN(CpuProbe probe, probeCpu({threads, kRounds, kMemoryBytes, kCacheReads}));
  Limits limits;
  limits.threads = probe.threads;
  limits.launchSeconds = probe.meetSeconds;
  for (const UnitRate &rate : probe.units) {
    limits.compute.push_back(
        {std::string(rate.unit->name), rate.unit->numbers, rate.unit->features, rate.operations});
  }
  limits.memory.push_back(
      {"L2", static_cast<double>(probe.cacheOfCore) * probe.threads, probe.cacheBytes});
  if (probe.lastCacheBytes > 0) {
    limits.memory.push_back({"L3", static_cast<double>(probe.lastCache), probe.lastCacheBytes});
  }
  limits.memory.push_back({"memory", HUGE_VAL, probe.memoryBytes});
  return limits;
}

Result<Limits> measureGpuLimits(int gpu) {
  TENON_ASSIGN(GpuProbe probe, probeGpu(gpu));
  Limits limits;
  limits.launchSeconds = probe.kernelSeconds;
  Result<target::Target> part = localGpu();
  if (part) {
    limits.multiprocessors = static_cast<int>(part->cores);
    limits.compute.push_back({"FP32 cores (by the table of parts)", Numbers::F32, 0, part->peak});
  }
  if (probe.productTeraflops) {
    double bf16 = *probe.productTeraflops * 1e12;
    limits.compute.push_back({"tensor cores (cuBLASLt, bf16)", Numbers::Bf16, 0, bf16});
    limits.compute.push_back({"tensor cores (tf32: half of bf16)", Numbers::Tf32, 0, bf16 / 2});
    limits.compute.push_back({"tensor cores (int8: twice bf16)", Numbers::I8, 0, bf16 * 2});
    if (part && part->arch && part->arch->number >= kFirstWithFloat8) {
      limits.compute.push_back({"tensor cores (f8: twice bf16)", Numbers::F8, 0, bf16 * 2});
    }
  }
  if (!probe.productTeraflops && part) {
    limits.compute.push_back(
        {"tensor cores (bf16, by the table of parts)", Numbers::Bf16, 0, part->halfPeak});
  }
  if (part && part->cacheBandwidth > probe.copyTerabytes * 1e12) {
    limits.memory.push_back({"L2 (by the table of parts)",
                             static_cast<double>(part->cacheBytes * part->cores),
                             part->cacheBandwidth});
  }
  limits.memory.push_back({"memory", HUGE_VAL, probe.copyTerabytes * 1e12});
  return limits;
}

Json toJson(const Limits &limits) {
  Json compute = Json::array(), memory = Json::array();
  for (const ComputeLimit &limit : limits.compute) {
    compute.push_back({{"unit", limit.unit},
                       {"numbers", nameOf(limit.numbers)},
                       {"operations_per_s", limit.operations}});
  }
  for (const MemoryLimit &limit : limits.memory) {
    memory.push_back(
        {{"level", limit.level},
         {"capacity_bytes", std::isfinite(limit.capacity) ? Json(limit.capacity) : Json()},
         {"bytes_per_s", limit.bytes}});
  }
  return {{"threads", limits.threads},
          {"compute", compute},
          {"memory", memory},
          {"launch_us", limits.launchSeconds * 1e6}};
}

} // namespace tenon::tool
