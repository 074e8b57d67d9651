// The elementwise consumers of a contraction, applied to one tile of its result while that is in
// cache. A tile is a range of rows (all dims but the last, flattened) and of columns.
#pragma once

#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/graph/Shape.h"

namespace tenon::codegen::cpu {

/// A part of the region's result; all of index type.
struct Tile {
  mlir::Value firstRow, rows, firstColumn, columns;
};

class Epilogue {
public:
  /// `root` is the contraction in `source`, `bias` its own bias operand or null.
  Epilogue(KernelBuilder &kernel, mlir::func::FuncOp source, mlir::Operation *root,
           mlir::Value bias);

  /// True if the region's result is the sums themselves.
  bool isTrivial() const;

  /// Writes the tile of the region's result for these sums (a memref of rows x columns).
  mlir::LogicalResult emit(const IndexMath &math, mlir::Value sums, const Tile &tile);

private:
  /// How a tile reads a value of the region's inputs.
  struct Operand {
    mlir::Value value;
    mlir::Value memref;
    mlir::AffineMap map;
  };
  bool hasAllRows(mlir::Value value) const;
  Operand operandOf(const IndexMath &math, mlir::Value value, const Tile &tile) const;
  mlir::Value loadBroadcast(mlir::OpBuilder &body, mlir::Value value, const Tile &tile) const;
  mlir::Value rowOf(mlir::OpBuilder &body, const tn::Dims &dims, const Tile &tile) const;
  mlir::FailureOr<mlir::Value> compute(mlir::OpBuilder &body,
                                       llvm::DenseMap<mlir::Value, mlir::Value> &elements,
                                       const Tile &tile);

  KernelBuilder &kernel;
  mlir::func::FuncOp source;
  mlir::Operation *root;
  mlir::Value bias;
  mlir::Value result;
  tn::Dims dims;
  mlir::SmallVector<mlir::Operation *> ops;
};

} // namespace tenon::codegen::cpu
