// Memory that the driver gives: on the GPU, and page-locked on the host. Both belong to one object
// and grow by being made anew, without keeping their contents.

#pragma once

#include "runtime/device/cuda/CudaDevice.h"

#include <cstddef>
#include <memory>

namespace tenon::runtime::cuda {

enum class MemoryKind { Device, Pinned };

/// A block of memory; empty at first. Its context is current where it is made, grown or destroyed.
class CudaBuffer {
public:
  CudaBuffer(std::shared_ptr<const CudaDevice> owner, MemoryKind memoryKind)
      : device(std::move(owner)), kind(memoryKind) {}
  CudaBuffer(CudaBuffer &&other) noexcept;
  CudaBuffer &operator=(CudaBuffer &&) = delete;
  ~CudaBuffer() { release(); }

  std::byte *data() const { return start; }
  DevicePointer pointer() const { return reinterpret_cast<DevicePointer>(start); }
  uint64_t size() const { return length; }
  /// Has at least `bytes` afterwards; after an error it is empty. `what` names it in errors.
  Status reserve(uint64_t bytes, const char *what);
  void release();

private:
  std::shared_ptr<const CudaDevice> device;
  MemoryKind kind;
  std::byte *start = nullptr;
  uint64_t length = 0;
};

} // namespace tenon::runtime::cuda
