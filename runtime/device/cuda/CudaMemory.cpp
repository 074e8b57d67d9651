// Allocates through the driver, which aligns to 256 bytes at least.

#include "runtime/device/cuda/CudaMemory.h"

#include "support/text/Text.h"

#include <utility>

namespace tenon::runtime::cuda {

CudaBuffer::CudaBuffer(CudaBuffer &&other) noexcept
    : device(std::move(other.device)), kind(other.kind), start(std::exchange(other.start, nullptr)),
      length(std::exchange(other.length, 0)) {}

Status CudaBuffer::reserve(uint64_t bytes, const char *what) {
  if (bytes <= length) {
    return Status::ok();
  }
  release();
  const CudaDriver &driver = device->driver();
  ContextScope scope(*device);
  int code = kSuccess;
  if (kind == MemoryKind::Device) {
    DevicePointer pointer = 0;
    code = driver.memAlloc(&pointer, bytes);
    start = code == kSuccess ? reinterpret_cast<std::byte *>(pointer) : nullptr;
  } else {
    void *pointer = nullptr;
    code = driver.memAllocHost(&pointer, bytes);
    start = code == kSuccess ? static_cast<std::byte *>(pointer) : nullptr;
  }
  if (code != kSuccess) {
    return driver.check(code, strCat("allocating ", bytes, " bytes of ",
                                     kind == MemoryKind::Device ? "GPU" : "page-locked host",
                                     " memory for ", what));
  }
  length = bytes;
  return Status::ok();
}

void CudaBuffer::release() {
  if (!start) {
    return;
  }
  ContextScope scope(*device);
  if (kind == MemoryKind::Device) {
    device->driver().memFree(pointer());
  } else {
    device->driver().memFreeHost(start);
  }
  start = nullptr;
  length = 0;
}

} // namespace tenon::runtime::cuda
