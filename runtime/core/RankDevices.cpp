// Looks at GPUs before anything is sent to them, so that what is wrong is said at once.

#include "runtime/core/RankDevices.h"

#include "runtime/device/cuda/CudaDevice.h"
#include "support/text/Text.h"

namespace tenon::runtime {

using Device = std::shared_ptr<const cuda::CudaDevice>;

namespace {

Status checkAlike(const cuda::DeviceInfo &first, const cuda::DeviceInfo &info) {
  bool isAlike = info.name == first.name && info.memoryBytes == first.memoryBytes;
  return isAlike ? Status::ok()
                 : Status::error(ErrorId::DeviceNotFound,
                                 strCat("GPU ", first.ordinal, " is ", first.name, " and GPU ",
                                        info.ordinal, " is ", info.name,
                                        ", but ranks of a group need equal GPUs"),
                                 "choose GPUs of one kind by CUDA_VISIBLE_DEVICES");
}

} // namespace

Result<std::vector<Device>> openRankDevices(uint32_t ranks, const EngineOptions &options) {
  std::vector<Device> devices;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Result<Device> opened =
        cuda::CudaDevice::open(options.cudaLibrary, options.gpu + static_cast<int>(rank));
    if (!opened.isOk()) {
      return opened.takeStatus().prefix(strCat("the engine is for ", ranks, " GPUs together"));
    }
    devices.push_back(std::move(*opened));
    TENON_TRY(checkAlike(devices.front()->info(), devices.back()->info()));
  }
  return devices;
}

} // namespace tenon::runtime
