// The code of an engine on a GPU: PTX that the driver compiles, loaded, its kernels by index.

#pragma once

#include "engine/CudaArch.h"
#include "engine/Plan.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "support/memory/ByteSpan.h"

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tenon::runtime::cuda {

/// The code of a variant as the engine holds it.
struct GpuCode {
  Bytes ptx;   ///< ends with a zero byte
  Bytes cubin; ///< of just the architecture that the PTX is for; may be empty
  engine::CudaArch arch;
};

class CudaModule {
public:
  /// Takes the engine's cubin where the GPU runs it, else has the driver compile the PTX or take
  /// what it made of it before.
  static Result<std::unique_ptr<CudaModule>> load(std::shared_ptr<const CudaDevice> device,
                                                  const GpuCode &code,
                                                  const engine::Variant &variant);
  ~CudaModule();
  CudaModule(const CudaModule &) = delete;
  CudaModule &operator=(const CudaModule &) = delete;

  /// Null if there is none of that name.
  FunctionHandle find(std::string_view name) const;
  FunctionHandle kernel(uint32_t index) const { return kernels[index].function; }
  /// Lets launches of a kernel have this much dynamic shared memory; any thread may ask.
  Status allowSharedBytes(uint32_t index, int64_t bytes) const;

private:
  struct Kernel {
    FunctionHandle function = nullptr;
    std::string name;
    /// Of dynamic shared memory; what needs no permission is less by the kernel's own arrays.
    int64_t allowedBytes = 0;
  };

  explicit CudaModule(std::shared_ptr<const CudaDevice> owner) : device(std::move(owner)) {}
  Status loadCode(const GpuCode &code);
  Status findKernels(std::span<const std::string> names);
  Status allowClusters(const engine::Plan &plan);
  /// That kernels whose blocks wait for each other have a multiprocessor for each block.
  Status checkWholeGrids(const engine::Plan &plan) const;

  std::shared_ptr<const CudaDevice> device;
  ModuleHandle module = nullptr;
  mutable std::mutex mutex;
  mutable std::vector<Kernel> kernels; ///< the allowed bytes are guarded by the mutex
};

} // namespace tenon::runtime::cuda
