// Implements tensors in host memory and the reading of their elements as doubles.

#include "runtime/tensors/Tensor.h"

#include "support/Check.h"
#include "support/Shape.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tenon {
namespace {

/// Half of a float32: bfloat16.
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(double value) {
    uint32_t wide = std::bit_cast<uint32_t>(static_cast<float>(value));
    bool isNan = value != value;
    bits = static_cast<uint16_t>(isNan ? 0x7fc0 : (wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  explicit operator double() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// Calls visitor(zero of the element type).
template <typename Visitor> void visitType(DType dtype, const Visitor &visitor) {
  switch (dtype) {
  case DType::F32:
    return visitor(float());
  case DType::F64:
    return visitor(double());
  case DType::F16:
    return visitor(_Float16());
  case DType::BF16:
    return visitor(BFloat16());
  case DType::I8:
    return visitor(int8_t());
  case DType::I16:
    return visitor(int16_t());
  case DType::I32:
    return visitor(int32_t());
  case DType::I64:
    return visitor(int64_t());
  case DType::U8:
  case DType::Bool:
    return visitor(uint8_t());
  case DType::U16:
    return visitor(uint16_t());
  case DType::U32:
    return visitor(uint32_t());
  case DType::U64:
    return visitor(uint64_t());
  default:
    TENON_CHECK(false, "only numeric types have elements that are numbers");
  }
}

} // namespace

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
