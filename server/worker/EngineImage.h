// What loading an engine waits for longest, done side by side: its file and the GPU's driver.

#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "support/Result.h"
#include "support/memory/AlignedBuffer.h"

#include <memory>
#include <thread>

namespace tenon::server {

/// A copy of a file: one that is replaced or cut short while it is served changes nothing here.
/// TN0104 for what is no regular file, TN0102 where it ends early.
Result<AlignedBuffer> readImage(int file);

/// Has NVIDIA's driver start in a thread of its own. The engine that is opened meanwhile takes the
/// GPU over, or finds out why there is none.
class EarlyGpu {
public:
  explicit EarlyGpu(bool isWanted);
  /// Waits for the driver.
  ~EarlyGpu();
  EarlyGpu(const EarlyGpu &) = delete;
  EarlyGpu &operator=(const EarlyGpu &) = delete;

private:
  void open();

  std::shared_ptr<const runtime::cuda::CudaDevice> device;
  std::thread opening;
};

} // namespace tenon::server
