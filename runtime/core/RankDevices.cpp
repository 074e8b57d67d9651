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

uint64_t weightBytesOf(const engine::EngineFile &file, const engine::Plan &plan, uint32_t rank) {
  std::vector<bool> isOfStage = engine::buffersOfStage(plan, plan.stageOf(rank));
  std::vector<bool> isCounted(file.weights().size());
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    uint32_t weight = plan.buffers[i].weight;
    if (weight != engine::kNone && isOfStage[i] && !isCounted[weight]) {
      isCounted[weight] = true;
      bytes += file.weights()[weight].bytes;
    }
  }
  return bytes;
}

Status checkRoom(const cuda::CudaDevice &device, uint64_t need) {
  cuda::ContextScope scope(device);
  size_t free = 0, total = 0;
  TENON_TRY(device.driver().check(device.driver().memGetInfo(&free, &total),
                                  strCat("asking GPU ", device.info().ordinal, " for its memory")));
  constexpr uint64_t mebibyte = uint64_t(1) << 20;
  return need <= free
             ? Status::ok()
             : Status::error(ErrorId::RunOutOfMemory,
                             strCat("GPU ", device.info().ordinal, " has ", free / mebibyte,
                                    " MiB free of ", total / mebibyte,
                                    ", but the weights of its rank take ", need / mebibyte),
                             "end what else runs on it, or choose others by CUDA_VISIBLE_DEVICES");
}

} // namespace

Result<std::vector<Device>> openRankDevices(const engine::EngineFile &file, size_t index,
                                            const EngineOptions &options) {
  const engine::Plan &plan = file.variants()[index].plan;
  std::vector<Device> devices;
  for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
    Result<Device> opened =
        cuda::CudaDevice::open(options.cudaLibrary, options.gpu + static_cast<int>(rank));
    if (!opened.isOk()) {
      return opened.takeStatus().prefix(strCat("the engine is for ", plan.ranks, " GPUs together"));
    }
    devices.push_back(std::move(*opened));
    TENON_TRY(checkAlike(devices.front()->info(), devices.back()->info()));
    TENON_TRY(checkRoom(*devices.back(), weightBytesOf(file, plan, rank)));
  }
  return devices;
}

} // namespace tenon::runtime
