// Products of 16-bit floats by one matrix whose sizes are known, of rows at least how many there
// can be: what GEMV and the skinny GEMM take.
#pragma once

#include "compiler/codegen/cuda/base/StepRange.h"
#include "compiler/graph/Float8.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace tenon::codegen::cuda {

/// Rows beyond which arithmetic, not the stream of weights, takes the time (and two mma of 8 rows
/// no longer hold them).
inline constexpr int64_t kMaxStreamedRows = 16;
/// Elements of all rows up to which every block norms them: with 16 rows of 2048 that takes 2.5 to
/// 4 us of a product on an H200, a kernel of its own takes 1.7.
inline constexpr int64_t kMaxNormedElements = 8192;

/// Of @kernel: the row counts of its product that it is compiled for, where the ranges of its
/// symbols allow others (RowBuckets.h).
inline constexpr llvm::StringLiteral kRowRange = "tn.row_range";

using RowRange = SizeRange;

/// The number of rows of a tensor, along its last dim, as an expression over the symbols; null if
/// it overflows.
inline mlir::AffineExpr rowCountOf(mlir::Type tensor) {
  tn::Dims dims = tn::getDims(tensor);
  return tn::elementCount(tensor.getContext(), llvm::ArrayRef(dims).drop_back());
}

/// What that number can be, for the rows of a region's product.
inline RowRange rowRangeOf(mlir::func::FuncOp region, mlir::Type tensor) {
  mlir::AffineExpr rows = rowCountOf(tensor);
  if (!rows) {
    return {0, std::numeric_limits<int64_t>::max()};
  }
  tn::SymbolList declared(region->getParentOfType<mlir::ModuleOp>());
  tn::SymbolList::Range bounds = declared.bounds(rows);
  RowRange range{bounds.min, bounds.max};
  if (auto only = region->getAttrOfType<mlir::DenseI64ArrayAttr>(kRowRange)) {
    range.least = std::max(range.least, only[0]);
    range.most = std::min(range.most, only[1]);
  }
  return range;
}

/// Sizes of a product of 16-bit floats by one matrix.
struct HalfGemm {
  int64_t rows, columns, depth; ///< rows at most
};
/// None of other products, and where columns or depth vary.
inline std::optional<HalfGemm> halfGemmOf(tn::MatmulOp matmul) {
  mlir::RankedTensorType b = mlir::cast<mlir::RankedTensorType>(matmul.getB().getType());
  mlir::Type element = b.getElementType();
  bool isHalf = element.isF16() || element.isBF16();
  if (tn::isFloat8Product(matmul) || !isHalf ||
      mlir::getElementTypeOrSelf(matmul.getA()) != element || b.getRank() != 2 ||
      !b.hasStaticShape() || matmul.getTransposeA() ||
      tn::getDims(matmul.getA().getType()).size() < 2) {
    return std::nullopt;
  }
  int64_t ofDepth = matmul.getTransposeB() ? 1 : 0;
  RowRange rows =
      rowRangeOf(matmul->getParentOfType<mlir::func::FuncOp>(), matmul.getA().getType());
  return HalfGemm{rows.most, b.getDimSize(1 - ofDepth), b.getDimSize(ofDepth)};
}

/// The parts of the accumulators that an element of the result is made of; 0 if they are not equal
/// slices of the columns (Gemv.cpp).
int64_t partsOfColumns(tn::MatmulOp op, mlir::Value result);

/// Whether a product with a constant B is streamed, by its sizes and types alone.
inline bool isStreamed(tn::MatmulOp matmul) {
  std::optional<HalfGemm> product = halfGemmOf(matmul);
  if (!product) {
    return false;
  }
  RowRange rows =
      rowRangeOf(matmul->getParentOfType<mlir::func::FuncOp>(), matmul.getA().getType());
  return rows.least >= 1 && rows.most <= kMaxStreamedRows && product->depth % 8 == 0 &&
         product->depth >= 256;
}

/// Whether a norm is of rows of one length, in one type.
inline bool isOfRows(tn::RmsNormOp norm) {
  tn::Dims dims = tn::getDims(norm.getX().getType());
  mlir::Type element = mlir::getElementTypeOrSelf(norm.getX());
  return mlir::getElementTypeOrSelf(norm.getY()) == element &&
         (!norm.getScale() || mlir::getElementTypeOrSelf(norm.getScale()) == element) &&
         static_cast<size_t>(norm.getAxis()) + 1 == dims.size() && tn::constantDim(dims.back());
}

/// Whether the norm of a streamed product's rows may be its prologue: each block norms all of them.
inline bool isStreamedNorm(tn::RmsNormOp norm) {
  RowRange rows = rowRangeOf(norm->getParentOfType<mlir::func::FuncOp>(), norm.getX().getType());
  return isOfRows(norm) &&
         rows.most <=
             kMaxNormedElements /
                 std::max<int64_t>(*tn::constantDim(tn::getDims(norm.getX().getType()).back()), 1);
}

} // namespace tenon::codegen::cuda
