// Triton has checked requests against the configuration; sizes are checked again, since memory is
// read by them.

#include "bindings/triton/Requests.h"

#include "support/text/Text.h"

#include <cstring>

namespace tenon::triton {
namespace {

Error badInput(const Port &port, std::string_view what) {
  return fail(ErrorId::BadRequestTensor, strCat("input '", port.name, "' ", what));
}

Error onGpu(std::string_view kind, const Port &port) {
  return fail(ErrorId::NotServed,
              strCat(kind, " '", port.name,
                     "' is in GPU memory, but the backend uses tensors in host memory"),
              "do not use CUDA shared memory for this model");
}

/// The bytes that a tensor of these dims has; false where a dim is negative or there are more than
/// 2^63.
bool sizeOf(const Port &port, std::span<const int64_t> dims, uint64_t &bytes) {
  int64_t product = static_cast<int64_t>(port.elementBytes);
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(product, dim, &product)) {
      return false;
    }
  }
  bytes = static_cast<uint64_t>(product);
  return true;
}

Error gather(TRITONBACKEND_Input *input, const Port &port, uint32_t count, Tensor &tensor) {
  for (uint32_t i = 0; i < count; ++i) {
    const void *data = nullptr;
    uint64_t bytes = 0;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t device = 0;
    TRITON_TRY(TRITONBACKEND_InputBuffer(input, i, &data, &bytes, &memory, &device));
    if (memory == TRITONSERVER_MEMORY_GPU) {
      return onGpu("input", port);
    }
    const std::byte *piece = static_cast<const std::byte *>(data);
    if (count == 1 && reinterpret_cast<uintptr_t>(data) % port.elementBytes == 0) {
      tensor.data = piece;
      tensor.bytes = bytes;
      return nullptr;
    }
    tensor.ownBytes.insert(tensor.ownBytes.end(), piece, piece + bytes);
  }
  tensor.data = tensor.ownBytes.data();
  tensor.bytes = tensor.ownBytes.size();
  return nullptr;
}

} // namespace

Error readInput(TRITONBACKEND_Request *request, const Port &port, Tensor &tensor) {
  TRITONBACKEND_Input *input = nullptr;
  if (take(TRITONBACKEND_RequestInput(request, port.name.c_str(), &input))) {
    return badInput(port, "is missing");
  }
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  const int64_t *dims = nullptr;
  uint32_t rank = 0, pieces = 0;
  TRITON_TRY(TRITONBACKEND_InputProperties(input, nullptr, &type, &dims, &rank, nullptr, &pieces));
  if (type != port.type) {
    return badInput(port, "has another type than the engine's");
  }
  tensor.dims.assign(dims, dims + rank);
  uint64_t wanted = 0;
  if (!sizeOf(port, tensor.dims, wanted)) {
    return badInput(port, "has impossible dims");
  }
  TRITON_TRY(gather(input, port, pieces, tensor));
  if (tensor.bytes != wanted) {
    return badInput(port, strCat("has ", tensor.bytes, " bytes, but its dims need ", wanted));
  }
  if (port.maxDims.empty() && tensor.dims == std::vector<int64_t>{1}) {
    tensor.dims.clear();
  }
  return nullptr;
}

Error wantedOutputs(TRITONBACKEND_Request *request, std::vector<std::string_view> &names) {
  uint32_t count = 0;
  TRITON_TRY(TRITONBACKEND_RequestOutputCount(request, &count));
  for (uint32_t i = 0; i < count; ++i) {
    const char *name = nullptr;
    TRITON_TRY(TRITONBACKEND_RequestOutputName(request, i, &name));
    names.push_back(name);
  }
  return nullptr;
}

Error writeOutput(TRITONBACKEND_Response *response, const Port &port, std::span<const int64_t> dims,
                  const std::byte *data, uint64_t bytes) {
  constexpr int64_t kScalar[] = {1};
  std::span<const int64_t> shown = dims.empty() ? std::span<const int64_t>(kScalar) : dims;
  TRITONBACKEND_Output *output = nullptr;
  TRITON_TRY(TRITONBACKEND_ResponseOutput(response, &output, port.name.c_str(), port.type,
                                          shown.data(), static_cast<uint32_t>(shown.size())));
  void *place = nullptr;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t device = 0;
  TRITON_TRY(TRITONBACKEND_OutputBuffer(output, &place, bytes, &memory, &device));
  if (memory == TRITONSERVER_MEMORY_GPU) {
    return onGpu("output", port);
  }
  if (bytes > 0) {
    std::memcpy(place, data, bytes);
  }
  return nullptr;
}

} // namespace tenon::triton
