// A stable sort of rows of any length by unsigned keys: from the lowest 8 bits of the keys to the
// highest, each time by three kernels.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/Region.h"

#include <functional>

namespace tenon::codegen::cuda {

/// What is sorted, in ascending order: of each row `length` keys, each with its number in the row.
struct SortJob {
  mlir::AffineExpr rows, length;
  mlir::Type key;    ///< i32 or i64
  int64_t bits = 32; ///< of the keys that differ, the lowest
  /// In a kernel whose buffers from `first` on are `read`: the key of an element of a row (i64,
  /// i64).
  using KeyFn = std::function<mlir::Value(const ThreadBuilder &, KernelFrame &, unsigned first,
                                          mlir::Value row, mlir::Value number)>;
  llvm::SmallVector<uint32_t> read;
  KeyFn keyOf;
  /// In one whose buffers from `first` on are `given`, then `written`: takes what stands at a place
  /// (i32) of a row: its key and its number (i32).
  using StoreFn =
      std::function<void(const ThreadBuilder &, KernelFrame &, unsigned first, mlir::Value row,
                         mlir::Value place, mlir::Value key, mlir::Value number)>;
  llvm::SmallVector<uint32_t> given, written;
  StoreFn store;

  int64_t passes() const { return (bits + 7) / 8; }
};

/// Adds the steps of a sort.
void emitRadixSort(RegionBuilder &region, const SortJob &job);
/// Seconds that they take.
double radixSortSeconds(RegionBuilder &region, const SortJob &job);

} // namespace tenon::codegen::cuda
