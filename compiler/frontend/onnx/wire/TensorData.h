// The bytes of a TensorProto in memory order: a view where the file holds them so, else decoded.
// Relies on Model.h's views; checks that payload, dims and type agree.
#pragma once

#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/frontend/onnx/wire/Model.h"
#include "support/DType.h"

#include <optional>

namespace tenon::onnx {

/// The element type as the other stages name it; none for strings and types Tenon lacks.
std::optional<DType> toDType(DataType type);

struct TensorData {
  std::vector<int64_t> dims;
  DType type = DType::F32;
  uint64_t elements = 0;
  uint64_t size = 0; ///< bytes
  unsigned bits = 8; ///< of an element; fewer than 8 are packed, the first element lowest
  Bytes view;        ///< of `owned` or of a mapped file; empty if the tensor is seeded
  std::vector<std::byte> owned;
  std::optional<ExternalLocation> seeded;
};

/// The elements of packed data, one to a byte as everywhere but in ONNX files.
std::vector<std::byte> unpackedBytes(const TensorData &data);

/// Finds or decodes the bytes. A type that toDType lacks must be handled before.
Result<TensorData> loadTensor(const Tensor &tensor, ExternalFiles &files);

/// The elements of a sparse tensor among zeros.
Result<TensorData> loadTensor(const SparseTensor &sparse, ExternalFiles &files);

} // namespace tenon::onnx
