// One GPU: its primary context, shared by all engines of the process and with other users of the
// driver such as PyTorch, and what is known of it.

#pragma once

#include "runtime/device/cuda/CudaDriver.h"

#include <memory>
#include <string>

namespace tenon::runtime::cuda {

/// What is known of a GPU without using it.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int capability = 0; ///< compute capability times ten
  uint64_t memoryBytes = 0;
  int multiprocessors = 0;
  int sharedBytes = 0; ///< most shared memory of a block
  int l2Bytes = 0;
};

Result<int> countDevices(const CudaDriver &driver);
Result<DeviceInfo> describeDevice(const CudaDriver &driver, int ordinal);

class CudaDevice {
public:
  /// The GPU number `ordinal` of the driver `library`, the same object as long as anyone uses it.
  /// `whenFound` is for CudaDriver::open, should it have to be opened.
  static Result<std::shared_ptr<const CudaDevice>>
  open(const std::string &library, int ordinal, const std::function<void()> &whenFound = {});
  ~CudaDevice();
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  const CudaDriver &driver() const { return *cudaDriver; }
  const DeviceInfo &info() const { return deviceInfo; }
  ContextHandle context() const { return primary; }
  /// What the driver's functions take for the GPU.
  int handleOfDriver() const { return handle; }
  /// What opening the driver and the context took.
  double openingSeconds() const { return opening; }

private:
  CudaDevice(std::shared_ptr<const CudaDriver> driver, DeviceInfo info);
  Status retain();

  std::shared_ptr<const CudaDriver> cudaDriver;
  DeviceInfo deviceInfo;
  int handle = 0;
  ContextHandle primary = nullptr;
  double opening = 0;
};

/// Makes a GPU's context current in this thread for as long as it lives, and leaves the thread as
/// it was.
class ContextScope {
public:
  explicit ContextScope(const CudaDevice &device);
  ~ContextScope();
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;

private:
  const CudaDriver &driver;
  bool isPushed = false;
};

} // namespace tenon::runtime::cuda
