// Operators of ONNX on constants in memory: movement, casts, arithmetic and sums, as what stands
// between a stored weight and its layer.
#pragma once

#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/quant/Graph.h"

#include <functional>
#include <numeric>
#include <optional>
#include <vector>

namespace tenon::quant {

using Dims = std::vector<int64_t>;

struct Constant {
  onnx::DataType type = onnx::DataType::Float;
  Dims dims;
  std::vector<float> floats; ///< of Float, Float16, BFloat16 and Double
  std::vector<int64_t> ints; ///< of Int64, Int32 and Bool

  bool isFloat() const { return !isInteger() && type != onnx::DataType::Bool; }
  bool isInteger() const { return type == onnx::DataType::Int64 || type == onnx::DataType::Int32; }
  /// Others are moved and cast only.
  bool isComputed() const { return type == onnx::DataType::Float || isInteger(); }
  size_t size() const { return isFloat() ? floats.size() : ints.size(); }
};
using Folded = std::optional<Constant>;

/// None for types that are not among these, and seeded weights.
Folded loadConstant(const onnx::Tensor &tensor, onnx::ExternalFiles &files);

Folded loadConstant(const onnx::SparseTensor &tensor, onnx::ExternalFiles &files);
/// What a Constant node makes.
Folded loadConstant(const onnx::Node &node, onnx::ExternalFiles &files);

/// A result of a node whose operands are known, null for one that it has not; none for operators
/// that are not among these and for operands that do not fit.
Folded foldNode(const Graph &graph, size_t node, std::vector<const Constant *> operands,
                size_t result);

/// Of operands that broadcast to each other.
Folded foldBinary(std::string_view op, const Constant &a, const Constant &b);
/// A truth for each pair.
Folded foldComparison(std::string_view op, const Constant &a, const Constant &b);
Folded foldUnary(std::string_view op, Constant x);
Folded foldCast(Constant x, onnx::DataType to);
/// Of two matrices.
Folded foldProduct(const Constant &a, const Constant &b);
/// Of shapes that broadcast to each other.
std::optional<Dims> broadcastDims(const Dims &a, const Dims &b);

inline size_t elementsOf(const Dims &dims) {
  return static_cast<size_t>(
      std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()));
}

/// Calls `visit` with the indices of each element of `dims`, in memory order.
template <typename Visit> void forEachIndex(const Dims &dims, const Visit &visit) {
  Dims index(dims.size());
  for (size_t i = 0, count = elementsOf(dims); i < count; ++i) {
    visit(index);
    for (size_t axis = dims.size(); axis-- > 0 && ++index[axis] == dims[axis];) {
      index[axis] = 0;
    }
  }
}

/// Of the element at `index` of a shape that `dims` broadcasts to.
inline size_t offsetOf(const Dims &dims, const Dims &index) {
  size_t offset = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    size_t at = static_cast<size_t>(index[index.size() - dims.size() + i]);
    offset = offset * static_cast<size_t>(dims[i]) + (dims[i] == 1 ? 0 : at);
  }
  return offset;
}

} // namespace tenon::quant
