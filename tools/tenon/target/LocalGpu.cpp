// Asks NVIDIA's driver, as `doctor` does.

#include "tools/tenon/target/LocalGpu.h"

#include "runtime/device/cuda/CudaDevice.h"

#include <fmt/format.h>

namespace tenon::tool {

Result<target::Target> localGpu() {
  namespace cuda = runtime::cuda;
  TENON_ASSIGN(std::shared_ptr<const cuda::CudaDriver> driver,
               cuda::CudaDriver::open(cuda::kDriverLibrary));
  TENON_ASSIGN(int count, cuda::countDevices(*driver));
  if (count == 0) {
    return Status::error(ErrorId::UnsupportedTarget, "the driver found no GPU",
                         "name a GPU: --target cuda:h200");
  }
  TENON_ASSIGN(cuda::DeviceInfo info, cuda::describeDevice(*driver, 0));
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

Result<uint64_t> freeGpuMemory() {
  namespace cuda = runtime::cuda;
  TENON_ASSIGN(std::shared_ptr<const cuda::CudaDevice> device,
               cuda::CudaDevice::open(cuda::kDriverLibrary, 0));
  cuda::ContextScope scope(*device);
  size_t freeBytes = 0, allBytes = 0;
  const cuda::CudaDriver &driver = device->driver();
  TENON_TRY(driver.check(driver.memGetInfo(&freeBytes, &allBytes), "asking for free memory"));
  return uint64_t{freeBytes};
}

} // namespace tenon::tool
