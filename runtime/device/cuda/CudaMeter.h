// The clock by which library calls choose among algorithms. Relies on a GPU that does nothing else
// meanwhile.

#pragma once

#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaStream.h"
#include "runtime/library/Library.h"

#include <memory>
#include <vector>

namespace tenon::runtime::cuda {

class CudaMeter : public library::Meter {
public:
  static Result<std::unique_ptr<CudaMeter>> create(std::shared_ptr<const CudaDevice> device);

  /// Held on the GPU.
  uint64_t bytes() const;
  Result<void *> allocate(size_t bytes) override;
  Result<double> seconds(const std::function<Status(void *stream, unsigned round)> &work) override;

private:
  explicit CudaMeter(std::shared_ptr<const CudaDevice> owner);

  std::shared_ptr<const CudaDevice> device;
  CudaStream stream;
  CudaEvent start;
  CudaEvent end;
  CudaBuffer lead;
  std::vector<CudaBuffer> blocks;
};

} // namespace tenon::runtime::cuda
