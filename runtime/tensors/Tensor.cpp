// Implements tensors in host memory and the reading of their elements as doubles.

#include "runtime/tensors/Tensor.h"

#include "runtime/tensors/VisitType.h"
#include "support/Shape.h"

#include <fmt/format.h>

#include <cstring>

namespace tenon {

Result<Tensor> Tensor::create(std::string name, DType dtype, std::vector<int64_t> dims) {
  std::optional<int64_t> bytes = byteSize(dtype, dims);
  if (!bytes) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("'{}': a tensor of {} x {} is impossible", name,
                                     formatDims(dims), tenon::nameOf(dtype)));
  }
  TENON_ASSIGN(AlignedBuffer memory, AlignedBuffer::create(static_cast<uint64_t>(*bytes)));
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.dims = std::move(dims);
  tensor.data = std::move(memory);
  return tensor;
}

int64_t Tensor::elements() const { return elementCount(dims).value_or(0); }

Bytes Tensor::bytes() const {
  return data.bytes().first(static_cast<size_t>(byteSize(dtype, dims).value_or(0)));
}

bool isNumeric(DType dtype) {
  return static_cast<uint8_t>(dtype) <= static_cast<uint8_t>(DType::Bool);
}

bool isFloating(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64 || dtype == DType::F16 || dtype == DType::BF16;
}

double elementAsDouble(const Tensor &tensor, int64_t index) {
  double result = 0;
  visitType(tensor.dtype, [&](auto value) {
    std::memcpy(&value, tensor.data.data() + index * static_cast<int64_t>(sizeof(value)),
                sizeof(value));
    result = static_cast<double>(value);
  });
  return result;
}

void setElement(Tensor &tensor, int64_t index, double value) {
  visitType(tensor.dtype, [&](auto zero) {
    decltype(zero) stored = static_cast<decltype(zero)>(value);
    std::memcpy(tensor.data.data() + index * static_cast<int64_t>(sizeof(stored)), &stored,
                sizeof(stored));
  });
}

} // namespace tenon
