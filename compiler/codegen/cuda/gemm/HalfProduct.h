// Products of 16-bit floats by one matrix, with all sizes known: what GEMV and the skinny GEMM
// take.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "mlir/IR/TypeUtilities.h"

#include <optional>

namespace tenon::codegen::cuda {

/// Rows beyond which arithmetic, not the stream of weights, takes the time (and two mma of 8 rows
/// no longer hold them).
inline constexpr int64_t kMostStreamedRows = 16;
/// Elements of all rows up to which every block norms them: with 16 rows of 2048 that takes 2.5 to
/// 4 us of a product on an H200, a kernel of its own takes 1.7.
inline constexpr int64_t kMostNormedElements = 8192;

/// The rows of a tensor, along its last dim; none if their number varies.
inline std::optional<int64_t> rowsOf(mlir::Type tensor) {
  int64_t rows = 1;
  for (mlir::AffineExpr dim : llvm::ArrayRef(tn::getDims(tensor)).drop_back()) {
    std::optional<int64_t> size = tn::constantDim(dim);
    if (!size) {
      return std::nullopt;
    }
    rows *= *size;
  }
  return rows;
}

/// Sizes of a product of 16-bit floats by one matrix.
struct HalfProduct {
  int64_t rows, columns, depth;
};
/// None of other products, and where a size varies.
inline std::optional<HalfProduct> halfProductOf(tn::MatmulOp matmul) {
  mlir::RankedTensorType b = mlir::cast<mlir::RankedTensorType>(matmul.getB().getType());
  mlir::Type element = b.getElementType();
  bool isHalf = element.isF16() || element.isBF16();
  if (!isHalf || mlir::getElementTypeOrSelf(matmul.getA()) != element || b.getRank() != 2 ||
      !b.hasStaticShape() || matmul.getTransposeA() ||
      tn::getDims(matmul.getA().getType()).size() < 2) {
    return std::nullopt;
  }
  std::optional<int64_t> rows = rowsOf(matmul.getA().getType());
  int64_t ofDepth = matmul.getTransposeB() ? 1 : 0;
  return rows
             ? std::optional<HalfProduct>({*rows, b.getDimSize(1 - ofDepth), b.getDimSize(ofDepth)})
             : std::nullopt;
}

/// Whether a product with a constant B is streamed, by its sizes and types alone.
inline bool isStreamed(tn::MatmulOp matmul) {
  std::optional<HalfProduct> product = halfProductOf(matmul);
  return product && product->rows >= 1 && product->rows <= kMostStreamedRows &&
         product->depth % 8 == 0 && product->depth >= 256;
}

/// Whether the norm of a streamed product's rows may be its prologue: each block norms all of them.
inline bool isStreamedNorm(tn::RmsNormOp norm) {
  tn::Dims dims = tn::getDims(norm.getX().getType());
  mlir::Type element = mlir::getElementTypeOrSelf(norm.getX());
  std::optional<int64_t> rows = rowsOf(norm.getX().getType());
  std::optional<int64_t> depth = tn::constantDim(dims.back());
  return mlir::getElementTypeOrSelf(norm.getY()) == element &&
         (!norm.getScale() || mlir::getElementTypeOrSelf(norm.getScale()) == element) &&
         static_cast<size_t>(norm.getAxis()) + 1 == dims.size() && depth && rows &&
         *rows * *depth <= kMostNormedElements;
}

} // namespace tenon::codegen::cuda
