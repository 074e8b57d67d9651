// The driver itself, its devices, contexts and memory. Device memory is host memory that is known,
// so that a host pointer in place of a device pointer is found.

#include "test/unit/runtime/FakeDriver.h"
#include "test/unit/runtime/FakePlan.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace tenon::runtime::cuda;

/// Where programs measure, they write much memory only so that it takes time.
static size_t touched(size_t bytes) {
  constexpr size_t kMost = size_t(1) << 16;
  return tenon::test::FakePlan::get() ? std::min(bytes, kMost) : bytes;
}

namespace tenon::test {

thread_local int Driver::capturing = 0;
thread_local std::vector<ContextHandle> Driver::contexts;

Driver &driver() {
  static Driver *instance = new Driver();
  return *instance;
}

} // namespace tenon::test

using namespace tenon::test;

EXPORT FakeCuda *tenonFakeCuda() { return &driver(); }

EXPORT int cuInit(unsigned) {
  FAKE(cuInit)
  return driver().devices == 0 ? kNoDevice : kSuccess;
}

EXPORT int cuDriverGetVersion(int *version) {
  FAKE(cuDriverGetVersion)
  *version = driver().driverVersion;
  return kSuccess;
}

EXPORT int cuGetErrorName(int error, const char **name) {
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return kSuccess;
}

EXPORT int cuGetErrorString(int error, const char **text) {
  *text = error == kOutOfMemory ? "out of memory" : "a fault that the test asked for";
  return kSuccess;
}

EXPORT int cuDeviceGetCount(int *count) {
  FAKE(cuDeviceGetCount)
  *count = driver().devices;
  return kSuccess;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
  FAKE(cuDeviceGet)
  *device = ordinal;
  return kSuccess;
}

EXPORT int cuDeviceCanAccessPeer(int *can, int device, int peer) {
  FAKE(cuDeviceCanAccessPeer)
  *can = driver().reachesPeers && device != peer;
  return kSuccess;
}

EXPORT int cuCtxEnablePeerAccess(ContextHandle, unsigned) {
  FAKE_IN_CONTEXT(cuCtxEnablePeerAccess)
  return kSuccess;
}

EXPORT int cuDeviceGetName(char *name, int length, int device) {
  FAKE(cuDeviceGetName)
  bool isOther = device != 0 && !driver().otherName.empty();
  std::strncpy(name, isOther ? driver().otherName.c_str() : "Fake GPU",
               static_cast<size_t>(length));
  return kSuccess;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
  FAKE(cuDeviceGetAttribute)
  switch (attribute) {
  case kCapabilityMajor:
    *value = driver().capability / 10;
    return kSuccess;
  case kCapabilityMinor:
    *value = driver().capability % 10;
    return kSuccess;
  case kSharedBytesOptIn:
    *value = 227 << 10;
    return kSuccess;
  default:
    *value = 132;
    return kSuccess;
  }
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int) {
  FAKE(cuDeviceTotalMem_v2)
  *bytes = driver().memoryLimit;
  return kSuccess;
}

EXPORT int cuDevicePrimaryCtxRetain(ContextHandle *context, int) {
  FAKE(cuDevicePrimaryCtxRetain)
  ++driver().retained;
  *context = reinterpret_cast<ContextHandle>(&driver());
  return kSuccess;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  FAKE(cuDevicePrimaryCtxRelease_v2)
  --driver().retained;
  return kSuccess;
}

EXPORT int cuCtxGetCurrent(ContextHandle *context) {
  *context = driver().hasContext() ? driver().contexts.back() : nullptr;
  return kSuccess;
}

EXPORT int cuCtxPushCurrent_v2(ContextHandle context) {
  FAKE(cuCtxPushCurrent_v2)
  driver().contexts.push_back(context);
  return kSuccess;
}

EXPORT int cuCtxPopCurrent_v2(ContextHandle *) {
  FAKE(cuCtxPopCurrent_v2)
  driver().contexts.pop_back();
  return kSuccess;
}

EXPORT int cuMemGetInfo_v2(size_t *freeBytes, size_t *totalBytes) {
  FAKE_IN_CONTEXT(cuMemGetInfo_v2)
  *totalBytes = driver().memoryLimit;
  *freeBytes = *totalBytes - driver().deviceBytes();
  return kSuccess;
}

EXPORT int cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  FAKE_IN_CONTEXT(cuMemAlloc_v2)
  if (driver().isCapturing()) {
    return kCaptureUnsupported;
  }
  if (bytes == 0) {
    return kInvalidValue;
  }
  if (bytes > driver().memoryLimit - driver().deviceBytes()) {
    return kOutOfMemory;
  }
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xcd, touched(bytes));
  *pointer = reinterpret_cast<DevicePointer>(memory);
  driver().deviceBlocks[*pointer] = bytes;
  return kSuccess;
}

EXPORT int cuMemFree_v2(DevicePointer pointer) {
  FAKE_IN_CONTEXT(cuMemFree_v2)
  if (driver().deviceBlocks.erase(pointer) == 0) {
    return kInvalidValue;
  }
  std::free(reinterpret_cast<void *>(pointer));
  return kSuccess;
}

EXPORT int cuMemAllocHost_v2(void **pointer, size_t bytes) {
  FAKE_IN_CONTEXT(cuMemAllocHost_v2)
  if (driver().isCapturing()) {
    return kCaptureUnsupported;
  }
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  driver().pinnedBlocks[reinterpret_cast<uint64_t>(*pointer)] = bytes;
  return kSuccess;
}

EXPORT int cuMemFreeHost(void *pointer) {
  FAKE_IN_CONTEXT(cuMemFreeHost)
  if (driver().pinnedBlocks.erase(reinterpret_cast<uint64_t>(pointer)) == 0) {
    return kInvalidValue;
  }
  std::free(pointer);
  return kSuccess;
}

namespace {

int copyBytes(uint64_t to, uint64_t from, size_t bytes, StreamHandle stream, bool toDevice,
              bool fromDevice) {
  // What is not on the device must be page-locked, or the copy would not be asynchronous.
  bool isKnown =
      (toDevice ? driver().isDevice(to, bytes) : Driver::isIn(driver().pinnedBlocks, to, bytes)) &&
      (fromDevice ? driver().isDevice(from, bytes)
                  : Driver::isIn(driver().pinnedBlocks, from, bytes));
  if (!isKnown || bytes == 0) {
    return kIllegalAddress;
  }
  return submitWork(stream, [=] {
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    return kSuccess;
  });
}

} // namespace

EXPORT int cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes,
                                StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemcpyHtoDAsync_v2)
  return copyBytes(to, reinterpret_cast<uint64_t>(from), bytes, stream, true, false);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemcpyDtoHAsync_v2)
  return copyBytes(reinterpret_cast<uint64_t>(to), from, bytes, stream, false, true);
}

EXPORT int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes,
                                StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemcpyDtoDAsync_v2)
  return copyBytes(to, from, bytes, stream, true, true);
}

EXPORT int cuMemcpyPeerAsync(DevicePointer to, ContextHandle, DevicePointer from, ContextHandle,
                             size_t bytes, StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemcpyPeerAsync)
  return copyBytes(to, from, bytes, stream, true, true);
}

EXPORT int cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes,
                           StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemsetD8Async)
  if (!driver().isDevice(to, bytes)) {
    return kIllegalAddress;
  }
  return submitWork(stream, [=] {
    std::memset(reinterpret_cast<void *>(to), value, touched(bytes));
    return kSuccess;
  });
}
