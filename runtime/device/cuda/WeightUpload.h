// Sends weights to the GPU in pieces. Relies on the driver taking calls of several threads at once.

#pragma once

#include "runtime/device/cuda/CudaDevice.h"
#include "support/memory/ByteSpan.h"

#include <memory>
#include <vector>

namespace tenon::runtime::cuda {

class WeightUpload {
public:
  explicit WeightUpload(std::shared_ptr<const CudaDevice> target) : device(std::move(target)) {}

  /// Both must live until `send` returns.
  void add(DevicePointer to, Bytes bytes);
  /// Returns when all is on the GPU.
  Status send();

private:
  struct Piece {
    DevicePointer to;
    Bytes bytes;
  };
  class Lane;

  std::shared_ptr<const CudaDevice> device;
  std::vector<Piece> pieces;
};

} // namespace tenon::runtime::cuda
