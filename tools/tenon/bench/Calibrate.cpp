// Puts what the probes measure into a profile. Numbers that nothing here measures are left out, so
// that the table's hold.

#include "tools/tenon/bench/Calibrate.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "tools/tenon/bench/CpuProbe.h"
#include "tools/tenon/bench/GpuBench.h"
#include "tools/tenon/target/DeviceProfile.h"
#include "tools/tenon/target/LocalGpu.h"

#include <fmt/format.h>

namespace tenon::tool {
namespace {

/// On a CPU one unit computes all products, and what a product reads is not held back.
Result<Json> cpuSection(const std::string &name) {
  TENON_ASSIGN(CpuProbe probe, probeCpu());
  Json section = {{"name", name},
                  {"cores", probe.threads},
                  {"memory_bytes_per_s", probe.memoryBytes},
                  {"cache_bytes_per_s", probe.cacheBytes}};
  if (probe.cacheOfCore > 0) {
    section["cache_bytes_per_core"] = probe.cacheOfCore;
  }
  if (const UnitRate *fp32 = probe.best(Numbers::F32, runtime::hostFeatures())) {
    for (const char *key :
         {"fp32_flops", "half_flops", "generated_fp32_flops", "generated_half_flops"}) {
      section[key] = fp32->operations;
    }
  }
  for (const char *key : {"product_bytes_per_s", "generated_bytes_per_s"}) {
    section[key] = probe.memoryBytes;
  }
  return section;
}

Result<Json> gpuSection(const target::Target &gpu, TaskListener &listener) {
  TENON_ASSIGN(GpuProbe probe, probeGpu(0));
  Json section = {{"name", gpu.name},
                  {"architecture", gpu.variant()},
                  {"cores", gpu.cores},
                  {"cache_bytes_per_core", gpu.cacheBytes},
                  {"memory_bytes_per_s", probe.copyTerabytes * 1e12},
                  {"launch_s", probe.kernelSeconds}};
  if (probe.productTeraflops) {
    section["half_flops"] = *probe.productTeraflops * 1e12;
  } else {
    listener.note("cuBLASLt is missing: half_flops is not measured");
  }
  return section;
}

} // namespace

Result<Json> calibrate(const std::string &cpuName, TaskListener &listener) {
  listener.progress("measuring the CPU", 0);
  TENON_ASSIGN(Json cpu, cpuSection(cpuName));
  Json profile = {{"schema", kProfileSchema}, {"cpu", std::move(cpu)}};
  Result<target::Target> gpu = localGpu();
  if (gpu) {
    listener.progress("measuring the GPU", 0.5);
    TENON_ASSIGN(profile["cuda"], gpuSection(*gpu, listener));
  } else {
    listener.note(fmt::format("the profile does not cover a GPU: {}", gpu.status().message()));
  }
  listener.clearProgress();
  return profile;
}

} // namespace tenon::tool
