// A variant for a GPU: its kernels, and its weights in one block of the GPU's memory.

#pragma once

#include "engine/Reader.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaModule.h"
#include "runtime/device/cuda/EarlyLibraries.h"
#include "runtime/plan/Device.h"

#include <memory>
#include <vector>

namespace tenon::runtime::cuda {

/// Of all root buffers in the GPU's memory.
inline constexpr int64_t kDeviceAlignment = 256;
/// Behind the last buffer of a block: a kernel may read an element of an empty buffer and not use
/// it.
inline constexpr uint64_t kSlackBytes = 256;

class CudaVariant : public LoadedVariant {
public:
  /// `file` and `beside` must outlive the variant. `beside`, which may be null, is a variant of the
  /// same file, GPU and rank: weights that it has are not sent again.
  static Result<std::unique_ptr<LoadedVariant>>
  load(std::shared_ptr<const CudaDevice> device, const engine::EngineFile &file, size_t index,
       std::string cacheFolder, std::unique_ptr<EarlyLibraries> libraries,
       const LoadedVariant *beside, uint32_t rank = 0);

  Result<std::unique_ptr<Executor>> createExecutor(const SessionOptions &options,
                                                   const Executor *beside,
                                                   RankPlace place) const override;

  const std::shared_ptr<const CudaDevice> &device() const { return cudaDevice; }
  const engine::Plan &plan() const { return engineFile.variants()[index].plan; }
  const CudaModule &module() const { return *code; }
  /// Where a weight lies; null if neither this variant's plan uses it nor that of one beside it.
  std::byte *weight(uint32_t weightIndex) const;
  uint64_t weightBytes() const { return weights.size() == 0 ? 0 : weights.size() - kSlackBytes; }
  /// For library calls on this GPU, without measuring.
  library::Options libraryOptions() const;
  /// Waits for a library that is being made ready. By any number of threads.
  void waitForLibrary(const library::LibraryName *library) const;

private:
  CudaVariant(std::shared_ptr<const CudaDevice> device, const engine::EngineFile &file,
              size_t variantIndex, std::string cacheFolder, uint32_t rank);
  Status uploadWeights();

  std::shared_ptr<const CudaDevice> cudaDevice;
  const engine::EngineFile &engineFile;
  size_t index;
  uint32_t rank;
  const CudaVariant *beside = nullptr;
  std::string folder; ///< where what is made for the GPU is kept; empty for nowhere
  std::unique_ptr<CudaModule> code;
  CudaBuffer weights;
  std::vector<uint64_t> offsets; ///< by weight of the engine
  std::unique_ptr<EarlyLibraries> early;
};

} // namespace tenon::runtime::cuda
