// What the row kernels work on: roots that share their outer dims (rows) with reductions over all
// their inner dims, so that one group of threads computes all of a row at once.
#pragma once

#include "compiler/codegen/cuda/pointwise/Schedule.h"

#include <optional>

namespace tenon::codegen::cuda {

struct RowsWork {
  /// A tensor of `rows` x `inner`, and one of `rows` (and dims of 1).
  enum class Shape { Wide, Narrow };
  tn::Dims rows, inner;
  /// In an order in which each finds those that it depends on before it.
  llvm::SmallVector<mlir::linalg::GenericOp> reductions;
  llvm::SmallVector<Root> wide, narrow;
  /// The tensors in buffers that are read at every place of rows x inner.
  llvm::SmallVector<mlir::Value> inputs;
  /// The tensors in buffers that are read at the same places of inner for every row.
  llvm::SmallVector<mlir::Value> parameters;
};

/// Nothing if the roots are not of that kind: then each has to be computed in another way.
std::optional<RowsWork> findRowsWork(RegionBuilder &region, llvm::ArrayRef<Root> roots);

} // namespace tenon::codegen::cuda
