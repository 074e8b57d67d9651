// What an operator's import function sees: its operands as real numbers or as they are stored, its
// options, its results.
#pragma once

#include "compiler/frontend/common/Emitter.h"
#include "compiler/frontend/tflite/Importer.h"

namespace tenon::tflite {

class Node : public frontend::Emitter {
public:
  Node(Importer &importer, const fb::Operator &op, size_t index);

  const fb::Operator &op;
  const std::string kind; ///< "CONV_2D"

  //===--- Operands ---===//
  size_t numInputs() const { return sizeOf(op.inputs()); }
  size_t numOutputs() const { return sizeOf(op.outputs()); }
  bool has(size_t input) const;
  const fb::Tensor &input(size_t i) const;
  const fb::Tensor &output(size_t i) const;
  /// The real numbers that it stands for, or elements of another type as they are. Null after an
  /// error or gap, also for the others.
  mlir::Value value(size_t i);
  /// As the file stores it.
  mlir::Value stored(size_t i);
  /// Constant weights with their dims in another order, as real numbers.
  mlir::Value permutedWeight(size_t i, llvm::ArrayRef<int64_t> permutation);
  /// A bias of integers in units of the products of two operands, or of floats.
  mlir::Value bias(size_t i, size_t x, size_t weight);
  llvm::ArrayRef<int64_t> shape(mlir::Value value) const;
  int64_t rank(mlir::Value value) const { return static_cast<int64_t>(shape(value).size()); }
  /// Integers that constants decide; a gap for others.
  std::optional<llvm::SmallVector<int64_t>> integers(size_t i);
  /// In [0, rank).
  std::optional<int64_t> axis(int64_t axis, int64_t rank);
  llvm::SmallVector<int64_t> statedShape(size_t output) const;
  Importer &importer() { return owner; }

  /// The options, or null after an error.
  template <typename T> const T *options(const T *found) {
    if (!found) {
      error(ErrorId::OnnxBadAttribute, "it has no options of its kind");
    }
    return found;
  }

  //===--- Results ---===//
  /// Behind what an operator does itself.
  mlir::Value activated(mlir::Value x, fb::Activation activation);
  /// A result in real numbers or in elements of another type.
  void setOutput(size_t i, mlir::Value value);
  void setOutput(mlir::Value value) { setOutput(0, value); }
  /// A result as it is stored.
  void setStored(size_t i, mlir::Value value);

  using Emitter::broadcast;
  using Emitter::reshape;
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> dims);
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> dims);

  void gap(const llvm::Twine &why, const llvm::Twine &workaround = "") override;
  void error(ErrorId id, const llvm::Twine &what) override;
  std::string label() const override { return name; }
  /// Whether an operand depends on a gap that was noted elsewhere.
  bool isPoisoned() const;

private:
  friend class Importer;
  mlir::Value dequantized(mlir::Value numbers, const fb::Tensor &tensor, int64_t axis);
  mlir::Value quantized(mlir::Value real, const fb::Tensor &tensor);
  mlir::Value zeroPoints(const fb::Tensor &tensor, size_t count);

  Importer &owner;
  std::string name;
};

} // namespace tenon::tflite
