// A large product of 16-bit floats on sm_90a with an epilogue of our own: one block a processor goes
// from tile to tile. One thread of it copies boxes of both operands into a ring of stages, two
// warpgroups multiply them, each for half of a tile's rows, and finish their elements in registers.
// Relies on Warpgroup.h for products, AsyncCopy.h for copies and barriers, ElementEmitter for the
// epilogue.
//
// Blocks do not form clusters: those that read the same boxes at the same time get them from the
// second-level cache at more than twice the rate at which it serves different ones (measured on an
// H200: 10.8 TB/s into shared memory, with clusters and multicast 8.2).
#pragma once

#include "compiler/codegen/cuda/AsyncCopy.h"
#include "compiler/codegen/cuda/ElementEmitter.h"
#include "compiler/codegen/cuda/ProductMatch.h"
#include "compiler/codegen/cuda/Warpgroup.h"
#include "compiler/dispatch/LargeProducts.h"

namespace tenon::codegen::cuda {

/// Y[rows, columns] = A[rows, depth] B[depth, columns]; A is row-major. Columns and depth are
/// multiples of those of a tile.
struct LargeProblem {
  mlir::Type element;
  uint32_t a = 0, b = 0; ///< buffers
  RightOrder order = RightOrder::ColumnsInner; ///< of B
  tn::Dims rowDims;
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t blocks = 0; ///< at most one a processor

  int64_t rowTiles() const {
    return (rows + dispatch::kLargeRows - 1) / dispatch::kLargeRows;
  }
  int64_t columnTiles() const { return columns / dispatch::kLargeColumns; }
  int64_t tiles() const { return rowTiles() * columnTiles(); }
  int64_t steps() const { return depth / dispatch::kLargeDepth; }
};

/// The problem of a region that this kernel can do, whatever its size; failure (without a
/// diagnostic) for others.
mlir::FailureOr<LargeProblem> matchLargeProduct(RegionBuilder &region);
/// One kernel. False after a diagnostic.
bool emitLargeProduct(RegionBuilder &region, const LargeProblem &problem);

class LargeProduct {
public:
  LargeProduct(RegionBuilder &region, const LargeProblem &problem);

  /// The whole kernel and its step. False after a diagnostic.
  bool emit();

private:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  /// A place in the ring of stages: its number, and the parity of the turn that is under way.
  struct Turn {
    Value stage, parity;

    Values values() const { return {stage, parity}; }
    static Turn of(mlir::ValueRange values) { return {values[0], values[1]}; }
  };
  /// Where a tile begins (i32).
  struct Corner {
    Value row, column;
  };

  ThreadBuilder code() { return ThreadBuilder(kernel.builder, kernel.location); }
  void place();
  Turn next(const ThreadBuilder &t, const Turn &turn) const;
  Value stageAt(const ThreadBuilder &t, const Turn &turn) const;
  /// The barrier of a stage that tells that it is full, and that it is read.
  Value full(const ThreadBuilder &t, Value stage) const;
  Value empty(const ThreadBuilder &t, Value stage) const;
  Corner cornerOf(const ThreadBuilder &t, Value tile) const;
  Values forTiles(const ThreadBuilder &t, mlir::ValueRange inits, ThreadBuilder::LoopBody body);
  void copyTiles(const ThreadBuilder &t);
  void copyStage(const ThreadBuilder &t, Value step, const Corner &corner, const Turn &turn) const;
  void multiplyTiles(const ThreadBuilder &t);
  Values addStages(const ThreadBuilder &t, Turn &turn) const;

  // From sums to the result (LargeProductStore.cpp).
  void storeTile(const ThreadBuilder &t, const Corner &corner, mlir::ArrayRef<Value> sums);
  void storeColumns(int64_t first, const Index &column, llvm::ArrayRef<Value> sums);
  Values exchange(const ThreadBuilder &t, llvm::ArrayRef<Value> words) const;

  Kernel kernel;
  ElementEmitter emitter;
  const LargeProblem &p;
  ProductTensors tensors;
  Value aMap, bMap, shared, barriers, thread;
  Value warpgroup; ///< of those that multiply, from 0
  Value quad;      ///< the lane's number in its four
  /// Of the two rows that this thread has of a tile: index, place in the row dims, whether it
  /// exists (null if all do).
  struct Row {
    Index number;
    Indices place;
    Value exists;
  };
  llvm::SmallVector<Row> rows;
};

} // namespace tenon::codegen::cuda
