// What If, Loop, Scan and SequenceMap share: bodies that are imported in place, and values that are
// taken apart, joined and chosen between. Relies on lengths being known when importing.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// All nodes of all unrolled iterations of a model.
inline constexpr uint64_t kMaxUnrolledNodes = 1 << 14;

using ImportedValues = std::vector<ImportedValue>;

/// Imports the graph of an attribute with these values for its inputs and returns its results,
/// which may depend on gaps; none after an error.
std::optional<ImportedValues> importBody(NodeContext &c, llvm::StringRef name,
                                         const ImportedValues &inputs);

/// The repeated import of a node's attribute 'body', within the limit on unrolled nodes.
class Unrolling {
public:
  /// `iterations`: how many there are, if that is known.
  Unrolling(NodeContext &c, size_t numInputs, std::optional<int64_t> iterations);

  /// The results of the next iteration. None after an error, beyond the limit, and where a result
  /// depends on a gap; then so do all outputs of the node.
  std::optional<ImportedValues> next(const ImportedValues &inputs);

  /// Null after a failure.
  const Graph *body = nullptr;

private:
  NodeContext &c;
  std::optional<int64_t> iterations;
  uint64_t nodes = 0; ///< of an iteration
  int64_t done = 0;
};

/// True if no input from `first` on is left out; else an error.
bool requireInputs(NodeContext &c, unsigned first);

ImportedValue knownInteger(NodeContext &c, int64_t value, mlir::Type element);
ImportedValue tensorOf(mlir::Value value);
ImportedValue sequenceOf(ImportedValues elements);

/// Elements [start, start + size) of x along an axis, which is dropped unless it is kept.
ImportedValue takePart(NodeContext &c, ImportedValue &x, int64_t axis, mlir::AffineExpr start,
                       mlir::AffineExpr size, bool keepAxis);

/// Tensors of one type (at least one) along a new axis, or along one that they have.
ImportedValue join(NodeContext &c, ImportedValues &parts, int64_t axis, bool isNewAxis);

/// What `join` gives for no parts along a new axis, of the type that the body states for `result`;
/// a gap if it states none.
ImportedValue joinNone(NodeContext &c, const ValueInfo &result, int64_t axis);

/// Chooses by one condition (rank 0) between values that were both computed.
class Choice {
public:
  /// `why` and `workaround`: the words of the gap where values cannot be reconciled.
  Choice(NodeContext &context, mlir::Value theCondition, llvm::StringRef theWhy,
         llvm::StringRef theWorkaround)
      : c(context), condition(theCondition), why(theWhy), workaround(theWorkaround) {}

  /// `a` where the condition holds, else `b`. Where their sizes differ along an axis, data decides
  /// the size of the result: one symbol for all results that differ in the same sizes.
  ImportedValue between(ImportedValue a, ImportedValue b);

private:
  ImportedValue ofSizes(ImportedValue &a, ImportedValue &b);
  mlir::Value fromBoth(mlir::Value first, mlir::Value second, int64_t axis);
  mlir::Value asManyAs(mlir::Value places, mlir::Value x, int64_t axis);
  mlir::Value positions(mlir::AffineExpr a, mlir::AffineExpr b);
  ImportedValue gap(llvm::StringRef reason);

  struct Positions {
    mlir::AffineExpr a, b; ///< sizes that are chosen between
    mlir::Value value;     ///< 0, 1, ... as many as the chosen size says
  };
  NodeContext &c;
  mlir::Value condition;
  llvm::StringRef why, workaround;
  llvm::SmallVector<Positions> known;
};

} // namespace tenon::onnx
