// Asks NVIDIA's driver, as `doctor` does.

#include "tools/tenon/target/LocalGpu.h"

#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/library/Library.h"
#include "runtime/library/Loader.h"
#include "tools/tenon/print/Format.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::tool {

namespace {

namespace cuda = runtime::cuda;

struct FoundGpu {
  std::shared_ptr<const cuda::CudaDriver> driver;
  cuda::DeviceInfo info;
};

Result<FoundGpu> findGpu() {
  TENON_ASSIGN(std::shared_ptr<const cuda::CudaDriver> driver,
               cuda::CudaDriver::open(cuda::kDriverLibrary));
  TENON_ASSIGN(int count, cuda::countDevices(*driver));
  if (count == 0) {
    return Status::error(ErrorId::UnsupportedTarget, "the driver found no GPU",
                         "name a GPU: --target cuda:h200");
  }
  TENON_ASSIGN(cuda::DeviceInfo info, cuda::describeDevice(*driver, 0));
  return FoundGpu{std::move(driver), std::move(info)};
}

/// "cuBLASLt 13.1.0, cuDNN 9.14.0"; NCCL computes nothing by itself.
std::string librariesText() {
  std::string text;
  for (const library::FoundLibrary &found : library::findLibraries()) {
    bool computes = found.name != library::kNccl.name && !found.version.empty();
    text +=
        computes ? fmt::format("{}{} {}", text.empty() ? "" : ", ", found.name, found.version) : "";
  }
  return text;
}

} // namespace

Result<target::Target> localGpu() {
  TENON_ASSIGN(FoundGpu gpu, findGpu());
  const cuda::DeviceInfo &info = gpu.info;
  const target::Target *part = target::partOfGpu(info.name);
  const target::Target *row = part && part->arch->number == info.capability
                                  ? part
                                  : target::targetOfCapability(info.capability);
  if (!row) {
    return Status::error(ErrorId::UnsupportedTarget,
                         fmt::format("{} has compute capability {}.{}", info.name,
                                     info.capability / 10, info.capability % 10),
                         "Tenon compiles for 8.0 and later");
  }
  target::Target local = *row;
  local.name = info.name;
  if (info.multiprocessors > 0) {
    local.cores = info.multiprocessors;
    local.cacheBytes = info.l2Bytes > 0 ? info.l2Bytes / local.cores : local.cacheBytes;
  }
  return local;
}

Result<tuning::Device> localGpuDevice() {
  Result<FoundGpu> gpu = findGpu();
  if (!gpu) {
    return Status::error(
        ErrorId::EngineNoVariant,
        fmt::format("this machine has no GPU to measure on: {}", gpu.status().message()),
        "tune on a machine with the GPU; tenon cache export and import move what "
        "was measured");
  }
  const cuda::DeviceInfo &info = gpu->info;
  tuning::Device device{.name = fmt::format("{}, {} multiprocessors, {}, driver {}", info.name,
                                            info.multiprocessors, formatBytes(info.memoryBytes),
                                            gpu->driver->versionText()),
                        .threads = 1,
                        .libraries = librariesText(),
                        .levels = {}};
  for (const engine::CudaArch &arch : engine::kCudaArchs) {
    if (arch.isSpecific ? info.capability == arch.number : info.capability >= arch.number) {
      device.levels.emplace_back(arch.name);
    }
  }
  return device;
}

Result<uint64_t> cacheOfGpu() {
  TENON_ASSIGN(FoundGpu gpu, findGpu());
  return static_cast<uint64_t>(std::max(gpu.info.l2Bytes, 0));
}

Result<uint64_t> freeGpuMemory() {
  TENON_ASSIGN(std::shared_ptr<const cuda::CudaDevice> device,
               cuda::CudaDevice::open(cuda::kDriverLibrary, 0));
  cuda::ContextScope scope(*device);
  size_t freeBytes = 0, allBytes = 0;
  const cuda::CudaDriver &driver = device->driver();
  TENON_TRY(driver.check(driver.memGetInfo(&freeBytes, &allBytes), "asking for free memory"));
  return uint64_t{freeBytes};
}

} // namespace tenon::tool
