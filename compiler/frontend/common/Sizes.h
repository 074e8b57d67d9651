// Integer tensors known at import: their elements are expressions over the symbols. Shape
// computations are evaluated on them, so that no operation of the graph is spent on shapes.
#pragma once

#include "compiler/frontend/common/Symbols.h"

#include <functional>

namespace tenon::frontend {

struct Sizes {
  /// More elements are left to the graph.
  static constexpr int64_t kMaxElements = 64;

  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<mlir::AffineExpr> values; ///< row-major; bools are 0 and 1

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  bool isScalarLike() const { return values.size() == 1; }
  /// All elements, if all are constant.
  std::optional<llvm::SmallVector<int64_t>> constants() const;

  static Sizes scalar(mlir::AffineExpr value) { return {{}, {value}}; }
  static Sizes list(llvm::ArrayRef<mlir::AffineExpr> values) {
    return {{static_cast<int64_t>(values.size())}, llvm::SmallVector<mlir::AffineExpr>(values)};
  }
};

using SizeFunction = std::function<mlir::AffineExpr(mlir::AffineExpr, mlir::AffineExpr)>;

/// Elementwise with numpy's broadcast; none if the shapes disagree or `function` gives null.
std::optional<Sizes> broadcastSizes(const Sizes &a, const Sizes &b, const SizeFunction &function);
std::optional<Sizes> broadcastTo(const Sizes &x, llvm::ArrayRef<int64_t> shape);
/// x[..., indices, ...] along an axis.
std::optional<Sizes> gatherSizes(const Sizes &x, const Sizes &indices, int64_t axis);
std::optional<Sizes> concatSizes(llvm::ArrayRef<Sizes> parts, int64_t axis);
/// Elements start, start + step, ... (`count` of them) along an axis.
std::optional<Sizes> sliceSizes(const Sizes &x, int64_t axis, int64_t start, int64_t step,
                                int64_t count);
/// The axes of the result are those of x at `permutation`.
Sizes transposeSizes(const Sizes &x, llvm::ArrayRef<int64_t> permutation);
/// Combines the elements along all axes in `axes`.
std::optional<Sizes> reduceSizes(const Sizes &x, llvm::ArrayRef<int64_t> axes, bool keepdims,
                                 const SizeFunction &function);

} // namespace tenon::frontend
