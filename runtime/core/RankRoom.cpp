// Apart from RankDevices.cpp: the runtime library does without.

#include "runtime/core/RankDevices.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "support/text/Text.h"

namespace tenon::runtime {
namespace {

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

Status checkRankDevices(const engine::EngineFile &file, size_t index,
                        const EngineOptions &options) {
  using Device = std::shared_ptr<const cuda::CudaDevice>;
  const engine::Plan &plan = file.variants()[index].plan;
  TENON_ASSIGN(std::vector<Device> devices, openRankDevices(plan.ranks, options));
  for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
    TENON_TRY(checkRoom(*devices[rank], weightBytesOf(file, plan, rank)));
  }
  return Status::ok();
}

} // namespace tenon::runtime
