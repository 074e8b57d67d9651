// What the threads above each other, of a block and of a cluster, bring together of their columns.
// Relies on all threads of the cluster taking part each time.
#pragma once

#include "compiler/codegen/cuda/rows/Columns.h"
#include "compiler/codegen/cuda/rows/RowsThreads.h"

namespace tenon::codegen::cuda {

class CrossWarpReduction {
public:
  /// Stands at the kernel's beginning.
  CrossWarpReduction(KernelFrame &kernel, const ColumnsLayout &layout);

  /// One of several reductions that do not need each other's results.
  struct Part {
    Combiner combiner;
    /// The thread's part of each of its columns or groups of them, then the whole.
    llvm::SmallVector<Accumulators> own;
  };
  /// Every thread gets the whole of all.
  void reduce(llvm::MutableArrayRef<Part> parts);

private:
  using Arrays = llvm::SmallVector<mlir::Value>;
  /// Of one of the reductions, in shared memory.
  struct Exchange {
    llvm::SmallVector<mlir::Type> types;
    Arrays ofWarps, ofBlocks, results;
  };
  Exchange makeExchange(const Part &part, int64_t warps);
  Arrays makeArrays(llvm::ArrayRef<mlir::Type> types, int64_t count);
  void store(const Arrays &arrays, mlir::Value place, const Accumulators &values);
  Accumulators load(const Arrays &arrays, llvm::ArrayRef<mlir::Type> types, mlir::Value place);
  /// Columns of the block, or groups and parts of them.
  int64_t columns() const { return layout.width * layout.parts(); }
  /// Of one column, which lies `columns` apart in so many parts.
  Accumulators combineParts(const Combiner &combiner, const Arrays &arrays,
                            llvm::ArrayRef<mlir::Type> types, mlir::Value column, int64_t parts);
  /// Runs `body` for each column of the block, shared out among its threads.
  void forColumns(llvm::function_ref<void(mlir::Value column)> body);

  KernelFrame &kernel;
  ThreadBuilder t;
  ColumnsLayout layout;
  ThreadCombiner warp;
  mlir::Value thread, inWidth, inHeight;
  bool hasClusterStarted = false;
};

} // namespace tenon::codegen::cuda
