// Keeps the open devices of the process by weak reference, so that the context is released with the
// last engine.

#include "runtime/device/cuda/CudaDevice.h"

#include "support/text/Text.h"

#include <array>
#include <chrono>
#include <map>
#include <mutex>

namespace tenon::runtime::cuda {
namespace {

using DeviceKey = std::pair<std::string, int>;

/// Devices are the process's, so what is open of them is too.
struct OpenDevices {
  std::mutex mutex;
  std::map<DeviceKey, std::weak_ptr<const CudaDevice>> devices;
};

OpenDevices &openDevices() {
  // Never destroyed: engines that live in other globals may outlast it.
  static OpenDevices *open = new OpenDevices();
  return *open;
}

} // namespace

Result<int> countDevices(const CudaDriver &driver) {
  int count = 0;
  TENON_TRY(driver.check(driver.deviceGetCount(&count), "counting the GPUs"));
  return count;
}

Result<DeviceInfo> describeDevice(const CudaDriver &driver, int ordinal) {
  DeviceInfo info;
  info.ordinal = ordinal;
  int device = 0;
  std::string doing = strCat("asking for GPU ", ordinal);
  TENON_TRY(driver.check(driver.deviceGet(&device, ordinal), doing));
  std::array<char, 256> name = {};
  TENON_TRY(driver.check(
      driver.deviceGetName(name.data(), static_cast<int>(name.size() - 1), device), doing));
  info.name = name.data();
  size_t bytes = 0;
  TENON_TRY(driver.check(driver.deviceTotalMem(&bytes, device), doing));
  info.memoryBytes = bytes;
  int major = 0;
  int minor = 0;
  struct Wanted {
    int *value;
    DeviceAttribute attribute;
  };
  for (const Wanted &wanted :
       {Wanted{&major, kCapabilityMajor}, Wanted{&minor, kCapabilityMinor},
        Wanted{&info.multiprocessors, kMultiprocessors},
        Wanted{&info.sharedBytes, kSharedBytesOptIn}, Wanted{&info.l2Bytes, kL2Bytes}}) {
    TENON_TRY(
        driver.check(driver.deviceGetAttribute(wanted.value, wanted.attribute, device), doing));
  }
  info.capability = major * 10 + minor;
  return info;
}

CudaDevice::CudaDevice(std::shared_ptr<const CudaDriver> driver, DeviceInfo info)
    : cudaDriver(std::move(driver)), deviceInfo(std::move(info)) {}

CudaDevice::~CudaDevice() {
  if (primary) {
    cudaDriver->primaryCtxRelease(handle);
  }
}

Status CudaDevice::retain() {
  std::string doing = strCat("making the context of GPU ", deviceInfo.ordinal);
  TENON_TRY(cudaDriver->check(cudaDriver->deviceGet(&handle, deviceInfo.ordinal), doing));
  return cudaDriver->check(cudaDriver->primaryCtxRetain(&primary, handle), doing);
}

Result<std::shared_ptr<const CudaDevice>> CudaDevice::open(const std::string &library, int ordinal,
                                                           const std::function<void()> &whenFound) {
  OpenDevices &open = openDevices();
  std::lock_guard<std::mutex> lock(open.mutex);
  std::weak_ptr<const CudaDevice> &known = open.devices[{library, ordinal}];
  if (std::shared_ptr<const CudaDevice> device = known.lock()) {
    return device;
  }
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  TENON_ASSIGN(std::shared_ptr<const CudaDriver> driver, CudaDriver::open(library, whenFound));
  TENON_ASSIGN(int count, countDevices(*driver));
  if (ordinal < 0 || ordinal >= count) {
    return Status::error(
        ErrorId::DeviceNotFound,
        strCat("GPU ", ordinal, " was requested, but NVIDIA's driver found ", count),
        "make the GPU visible, or use a variant for the CPU");
  }
  TENON_ASSIGN(DeviceInfo info, describeDevice(*driver, ordinal));
  std::shared_ptr<CudaDevice> device(new CudaDevice(std::move(driver), std::move(info)));
  TENON_TRY(device->retain());
  device->opening = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  known = device;
  return std::shared_ptr<const CudaDevice>(std::move(device));
}

ContextScope::ContextScope(const CudaDevice &device) : driver(device.driver()) {
  ContextHandle current = nullptr;
  bool isCurrent = driver.ctxGetCurrent(&current) == kSuccess && current == device.context();
  // A failed push shows in the next call of the driver.
  isPushed = !isCurrent && driver.ctxPushCurrent(device.context()) == kSuccess;
}

ContextScope::~ContextScope() {
  ContextHandle popped = nullptr;
  if (isPushed) {
    driver.ctxPopCurrent(&popped);
  }
}

} // namespace tenon::runtime::cuda
