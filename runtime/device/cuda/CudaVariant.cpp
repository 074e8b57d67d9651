// Loads the code, and lays the weights that the plan uses one behind the other on the GPU.

#include "runtime/device/cuda/CudaVariant.h"

#include "runtime/device/cuda/CudaExecutor.h"
#include "runtime/device/cuda/CudaPlanPart.h"
#include "runtime/device/cuda/WeightUpload.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::runtime::cuda {

/// The offset of a weight that is not in this variant's block.
static constexpr uint64_t kNotHere = UINT64_MAX;

CudaVariant::CudaVariant(std::shared_ptr<const CudaDevice> device, const engine::EngineFile &file,
                         size_t variantIndex, std::string cacheFolder, uint32_t ofRank)
    : cudaDevice(std::move(device)), engineFile(file), index(variantIndex), rank(ofRank),
      folder(std::move(cacheFolder)), weights(cudaDevice, MemoryKind::Device) {}

Result<std::unique_ptr<LoadedVariant>>
CudaVariant::load(std::shared_ptr<const CudaDevice> device, const engine::EngineFile &file,
                  size_t index, std::string cacheFolder, std::unique_ptr<EarlyLibraries> libraries,
                  const LoadedVariant *beside, uint32_t rank) {
  ContextScope scope(*device);
  std::unique_ptr<CudaVariant> variant(
      new CudaVariant(std::move(device), file, index, std::move(cacheFolder), rank));
  variant->beside = static_cast<const CudaVariant *>(beside);
  if (libraries) {
    libraries->begin(*variant->cudaDevice, variant->plan(), variant->libraryOptions());
    variant->early = std::move(libraries);
  }
  const engine::Variant &stored = file.variants()[index];
  GpuCode code = {file.code(index), file.cubin(index),
                  engine::parseCudaArch(stored.level).value_or(engine::CudaArch())};
  TENON_ASSIGN(variant->code, CudaModule::load(variant->cudaDevice, code, stored));
  TENON_TRY(variant->uploadWeights());
  return std::unique_ptr<LoadedVariant>(std::move(variant));
}

std::byte *CudaVariant::weight(uint32_t weightIndex) const {
  if (offsets[weightIndex] != kNotHere) {
    return weights.data() + offsets[weightIndex];
  }
  return beside ? beside->weight(weightIndex) : nullptr;
}

library::Options CudaVariant::libraryOptions() const {
  library::Options options;
  options.workspaceLimit = kWorkspaceBytes;
  options.cacheFolder = folder;
  options.ordinal = cudaDevice->info().ordinal;
  options.device = strCat(cudaDevice->info().name, ", sm_", cudaDevice->info().capability,
                          ", driver ", cudaDevice->driver().version());
  return options;
}

void CudaVariant::waitForLibrary(const library::LibraryName *library) const {
  if (early) {
    early->wait(library);
  } else if (beside) {
    beside->waitForLibrary(library);
  }
}

Status CudaVariant::uploadWeights() {
  std::span<const engine::Weight> stored = engineFile.weights();
  std::vector<uint32_t> used;
  std::vector<bool> isOfStage = engine::buffersOfStage(plan(), plan().stageOf(rank));
  for (size_t i = 0; i < plan().buffers.size(); ++i) {
    const engine::Buffer &buffer = plan().buffers[i];
    if (isRootOf(buffer, engine::Space::Const) && isOfStage[i]) {
      used.push_back(buffer.weight);
    }
  }
  std::ranges::sort(used);
  used.erase(std::ranges::unique(used).begin(), used.end());
  std::erase_if(used, [&](uint32_t weight) { return beside && beside->weight(weight); });
  offsets.assign(stored.size(), kNotHere);
  uint64_t total = 0;
  for (uint32_t weight : used) {
    offsets[weight] = total;
    constexpr uint64_t unit = kDeviceAlignment;
    total += (stored[weight].bytes + unit - 1) / unit * unit;
  }
  if (used.empty()) {
    return Status::ok();
  }
  TENON_TRY(weights.reserve(total + kSlackBytes, "weights"));
  WeightUpload upload(cudaDevice);
  uint32_t position = rank % plan().ranksOfStage();
  for (uint32_t weight : used) {
    upload.add(weights.pointer() + offsets[weight],
               engineFile.weightsSection().subspan(stored[weight].offsetOf(position),
                                                   stored[weight].bytes));
  }
  return upload.send();
}

Result<std::unique_ptr<Executor>> CudaVariant::createExecutor(const SessionOptions &options,
                                                              const Executor *beside,
                                                              RankPlace place) const {
  return CudaExecutor::create(*this, options, static_cast<const CudaExecutor *>(beside), place);
}

} // namespace tenon::runtime::cuda
