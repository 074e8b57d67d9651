// Reads elements by the tensor's ONNX type; what lies in its bytes need not be aligned.
#include "compiler/frontend/onnx/Elements.h"

#include "llvm/ADT/APFloat.h"

#include <cstring>

namespace tenon::onnx {
namespace {

template <typename T> T readAs(const std::byte *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

} // namespace

/// An integer element; none if the type is no integer type.
std::optional<int64_t> integerAt(const TensorData &data, uint64_t i) {
  if (data.bits < 8) {
    return std::nullopt;
  }
  const std::byte *at = data.view.data() + i * (bitWidth(data.type) / 8);
  switch (data.type) {
  case DType::I64:
    return readAs<int64_t>(at);
  case DType::I32:
    return readAs<int32_t>(at);
  case DType::I16:
    return readAs<int16_t>(at);
  case DType::I8:
    return readAs<int8_t>(at);
  case DType::U8:
  case DType::Bool:
    return readAs<uint8_t>(at);
  case DType::U16:
    return readAs<uint16_t>(at);
  case DType::U32:
    return readAs<uint32_t>(at);
  default:
    return std::nullopt;
  }
}

std::optional<double> realAt(const TensorData &data, uint64_t i) {
  if (data.bits < 8) {
    return std::nullopt;
  }
  const std::byte *at = data.view.data() + i * (bitWidth(data.type) / 8);
  switch (data.type) {
  case DType::F32:
    return readAs<float>(at);
  case DType::F64:
    return readAs<double>(at);
  case DType::F16: {
    llvm::APFloat half(llvm::APFloat::IEEEhalf(), llvm::APInt(16, readAs<uint16_t>(at)));
    return half.convertToDouble();
  }
  case DType::BF16: {
    llvm::APFloat brain(llvm::APFloat::BFloat(), llvm::APInt(16, readAs<uint16_t>(at)));
    return brain.convertToDouble();
  }
  default:
    return std::nullopt;
  }
}

} // namespace tenon::onnx
