// A dense row-major tensor of known shape: what the reference interpreter computes with.
// Bytes are shared between copies of a Tensor and start on a 64-byte border.
#pragma once

#include "compiler/graph/ElementType.h"
#include "compiler/reference/Element.h"
#include "support/Result.h"

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <optional>

namespace tenon::reference {

class Tensor {
public:
  /// Zeros. An error if the size overflows or memory is short.
  static Result<Tensor> create(DType dtype, llvm::ArrayRef<int64_t> dims);
  /// A copy of `bytes`, whose size must be that of the tensor.
  static Result<Tensor> copy(DType dtype, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<char> bytes);
  /// As `copy`, but shares bytes that are on a 64-byte border; they must outlive the tensor and are
  /// never written.
  static Result<Tensor> share(DType dtype, llvm::ArrayRef<int64_t> dims,
                              llvm::ArrayRef<char> bytes);
  Tensor() = default;

  DType dtype() const { return type; }
  llvm::ArrayRef<int64_t> dims() const { return sizes; }
  int64_t rank() const { return sizes.size(); }
  int64_t count() const { return elements; }
  uint64_t byteCount() const { return uint64_t(elements) * (bitWidth(type) / 8); }

  const char *bytes() const { return data.get(); }
  /// To be written only by who made the tensor.
  char *mutableBytes() { return data.get(); }
  template <typename T> const T *as() const { return reinterpret_cast<const T *>(data.get()); }
  template <typename T> T *as() { return reinterpret_cast<T *>(data.get()); }

  /// The same elements under other dims of the same count.
  Tensor reshaped(llvm::ArrayRef<int64_t> dims) const;

private:
  DType type = DType::F32;
  llvm::SmallVector<int64_t, 4> sizes;
  int64_t elements = 0;
  std::shared_ptr<char> data;
};

using tn::dtypeOf;

/// Each element converted as tn.cast does; shares the bytes if the type stays.
Result<Tensor> convert(const Tensor &tensor, DType dtype);

} // namespace tenon::reference
