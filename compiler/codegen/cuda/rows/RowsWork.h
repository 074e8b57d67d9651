// What the kernels of rows and columns work on: roots that share all dims but those over which all
// reductions go, so that one group of threads computes all of a row, or of a few columns, at once.
#pragma once

#include "compiler/codegen/cuda/pointwise/Schedule.h"

#include <optional>

namespace tenon::codegen::cuda {

struct RowsWork {
  /// A tensor of `rows` x `inner` x `behind` x `within`, and one without `inner` and `within`, or
  /// with dims of 1 there.
  enum class Shape { Wide, Narrow };
  /// Reductions go over `inner`, and over `within`, the last dim of groups of columns; of rows
  /// there are no dims behind.
  tn::Dims rows, inner, behind, within;

  /// The dims of columns side by side, groups of which are reduced together.
  tn::Dims columns() const {
    tn::Dims dims = behind;
    dims.append(within);
    return dims;
  }
  /// In an order in which each finds those that it depends on before it.
  llvm::SmallVector<mlir::linalg::GenericOp> reductions;
  llvm::SmallVector<Root> wide, narrow;
  /// The tensors in buffers that are read at every place of rows x inner.
  llvm::SmallVector<mlir::Value> inputs;
  /// The tensors in buffers that are read at the same places of inner for every row.
  llvm::SmallVector<mlir::Value> parameters;
};

/// What the results of a region are; nothing if they are not of that kind: then each has to be
/// computed in another way.
std::optional<RowsWork> findRowsWork(RegionBuilder &region);
/// The same of columns: reductions over dims of which others lie behind.
std::optional<RowsWork> findColumnsWork(RegionBuilder &region);

/// Whether an operand of an operation is read at the place of the loops themselves (a dim of 1 at
/// 0).
bool isReadInPlace(mlir::linalg::GenericOp op, mlir::OpOperand &operand);

} // namespace tenon::codegen::cuda
