// Makes, shares and converts tensors.
// Relies on AlignedBuffer for memory and on support/Shape.h for overflow checks.
#include "compiler/reference/Tensor.h"

#include "compiler/reference/LowBits.h"
#include "support/Shape.h"
#include "support/memory/AlignedBuffer.h"

#include <cstring>

namespace tenon::reference {

Result<Tensor> Tensor::create(DType dtype, llvm::ArrayRef<int64_t> dims) {
  std::span<const int64_t> sizes(dims.data(), dims.size());
  std::optional<int64_t> bytes = byteSize(dtype, sizes);
  if (!bytes) {
    return Status::error(ErrorId::OutOfMemory, "a tensor of " + std::string(nameOf(dtype)) +
                                                   " and shape " + formatDims(sizes) +
                                                   " cannot be held");
  }
  // Never a null pointer, so that empty tensors need no special case.
  TENON_ASSIGN(AlignedBuffer buffer, AlignedBuffer::create(std::max<int64_t>(*bytes, 1)));
  Tensor tensor;
  tensor.type = dtype;
  tensor.sizes.assign(dims.begin(), dims.end());
  tensor.elements = *bytes / (bitWidth(dtype) / 8);
  std::shared_ptr<AlignedBuffer> owner = std::make_shared<AlignedBuffer>(std::move(buffer));
  tensor.data = std::shared_ptr<char>(owner, reinterpret_cast<char *>(owner->data()));
  return tensor;
}

Result<Tensor> Tensor::copy(DType dtype, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<char> bytes) {
  TENON_ASSIGN(Tensor tensor, create(dtype, dims));
  if (tensor.byteCount() != bytes.size()) {
    return Status::error(ErrorId::BadArgument, "a tensor of " + std::to_string(tensor.byteCount()) +
                                                   " bytes was given " +
                                                   std::to_string(bytes.size()));
  }
  if (!bytes.empty()) {
    std::memcpy(tensor.mutableBytes(), bytes.data(), bytes.size());
  }
  return tensor;
}

Result<Tensor> Tensor::share(DType dtype, llvm::ArrayRef<int64_t> dims,
                             llvm::ArrayRef<char> bytes) {
  std::optional<int64_t> size = byteSize(dtype, {dims.data(), dims.size()});
  bool usable = size && *size > 0 && uint64_t(*size) == bytes.size() &&
                reinterpret_cast<uintptr_t>(bytes.data()) % 64 == 0;
  if (!usable) {
    return copy(dtype, dims, bytes);
  }
  Tensor tensor;
  tensor.type = dtype;
  tensor.sizes.assign(dims.begin(), dims.end());
  tensor.elements = *size / (bitWidth(dtype) / 8);
  tensor.data = std::shared_ptr<char>(std::shared_ptr<void>(), const_cast<char *>(bytes.data()));
  return tensor;
}

Tensor Tensor::reshaped(llvm::ArrayRef<int64_t> dims) const {
  Tensor result = *this;
  result.sizes.assign(dims.begin(), dims.end());
  return result;
}

Result<Tensor> convert(const Tensor &tensor, DType dtype) {
  if (tensor.dtype() == dtype) {
    return tensor;
  }
  if (isLowBit(tensor.dtype())) {
    TENON_ASSIGN(Tensor numbers, decode(tensor));
    return convert(numbers, dtype);
  }
  if (isLowBit(dtype)) {
    return encode(tensor, dtype);
  }
  TENON_ASSIGN(Tensor result, Tensor::create(dtype, tensor.dims()));
  TENON_TRY(visitElement(tensor.dtype(), [&](auto from) {
    return visitElement(dtype, [&](auto to) {
      using From = typename decltype(from)::Type;
      using To = typename decltype(to)::Type;
      const From *in = tensor.as<From>();
      To *out = result.as<To>();
      for (int64_t i = 0; i < tensor.count(); ++i) {
        out[i] = narrow<To>(widen(in[i]));
      }
      return Status::ok();
    });
  }));
  return result;
}

} // namespace tenon::reference
