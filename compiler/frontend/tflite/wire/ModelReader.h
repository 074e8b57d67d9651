// Verifies the bytes of a TensorFlow Lite model, so that whoever reads it need not look again:
// every offset, index, size and order is sound afterwards. What operators mean is the importer's.
#pragma once

#include "compiler/frontend/tflite/wire/model_generated.h"
#include "support/DType.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <optional>
#include <string>

namespace tenon::tflite {

/// How many bytes `looksLikeModel` needs.
inline constexpr size_t kIdentifierEnd = 8;
bool looksLikeModel(Bytes beginning);

/// A model whose tables point into `bytes`, which begin at a multiple of 8 in memory. Errors have
/// the numbers TN0257 for bytes that are no such file, and those of ONNX's reader for what its
/// tensors and operators say.
Result<const fb::Model *> readModel(Bytes bytes);

/// The elements of a constant, as stored; empty for a tensor that is none.
Bytes dataOf(const fb::Model &model, const fb::Tensor &tensor);
/// Whether the file holds its elements.
bool isConstant(const fb::Model &model, const fb::Tensor &tensor);

/// The type of its elements; none for one that Tenon lacks.
std::optional<DType> typeOf(const fb::Tensor &tensor);
/// "INT8", or the number of an unknown type.
std::string typeName(const fb::Tensor &tensor);

/// Whether numbers of it stand for real ones by scales.
bool isQuantized(const fb::Tensor &tensor);

/// What an operator is called in the format: "CONV_2D"; a custom one by its own name.
std::string operatorName(const fb::OperatorCode &code);
/// The number of a builtin operator.
int32_t operatorCode(const fb::OperatorCode &code);

/// Calls a function with each element of a vector that may be absent.
template <typename T, typename Fn> void forEach(const flatbuffers::Vector<T> *vector, Fn fn) {
  for (flatbuffers::uoffset_t i = 0; vector && i < vector->size(); ++i) {
    fn(vector->Get(i));
  }
}
inline size_t sizeOf(const auto *vector) { return vector ? vector->size() : 0; }

} // namespace tenon::tflite
