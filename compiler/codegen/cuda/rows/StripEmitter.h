// Rows and columns by strips: the vectors of elements that a thread takes at once, how they are
// masked, reduced and stored. Relies on its kernel for which strips a thread has.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/rows/RowsCombine.h"
#include "compiler/codegen/cuda/rows/RowsWork.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tenon::codegen::cuda {

/// Elements that lie side by side: their places, and their numbers in the tensors of all elements.
struct Strip {
  llvm::SmallVector<Indices> places;
  llvm::SmallVector<Index> linears;
  mlir::Value isInside; ///< null if the strip is always part of the row or columns
};

/// Where a row, or columns side by side, are in the dims outside of and behind those reduced, and
/// within a group of columns that are reduced together.
struct RowPlace {
  Indices outer, behind, within;
  int64_t group = 0; ///< columns of a group where strips begin with one; else 0

  /// In `behind` and `within`, the place of the column so many lanes on.
  std::pair<Indices, Indices> ofLane(IndexMath &math, int64_t lane) const;
};

/// Strips of so many elements that a thread loads before it uses any.
int64_t stripsAhead(int64_t elements);

class StripEmitter : public ElementEmitter {
public:
  explicit StripEmitter(KernelFrame &kernel);

  /// Threads beyond the last strip, row or column repeat it, since all meet at barriers: the index
  /// or the last one below `bound`; and whether it is the index itself, by a comparison with
  /// `bound` (slt, ult) or with the last one (sle).
  Index atMost(const Index &index, const Index &bound);
  Index atMost(const Index &index, const Index &bound, mlir::Value &isInside,
               mlir::arith::CmpIPredicate predicate = mlir::arith::CmpIPredicate::sle);

  /// `lanes` elements from `first` of the row, or from the first of the columns at `first`, which
  /// is number `start` of all elements.
  Strip strip(const RowsWork &work, const RowPlace &place, const Index &first, const Index &start,
              int64_t lanes);
  /// The place of one of the columns (of a row: its lane 0) in a tensor without reduced dims, or
  /// with dims of 1 there.
  Indices narrowPlace(mlir::Value tensor, const RowPlace &place, int64_t lane);

  /// What the strips' elements come to, with what they came to `before` if that is not empty, for
  /// each of `columns` results: element i of a strip belongs to result i modulo `columns`.
  llvm::SmallVector<Accumulators> reduceStrips(mlir::linalg::GenericOp op, const Combiner &combiner,
                                               const Accumulators &neutral,
                                               llvm::ArrayRef<Strip> strips, int64_t columns,
                                               llvm::ArrayRef<Accumulators> before = {});
  /// From here on the results of `op` are these values, wherever they are read.
  void hold(mlir::linalg::GenericOp op, const Accumulators &values);
  using ElementEmitter::hold;

  /// From `first` to below `end`, `step` at a time, with accumulators that are carried.
  using LoopBody = llvm::function_ref<llvm::SmallVector<Accumulators>(
      const Index &number, llvm::ArrayRef<Accumulators> carried)>;
  llvm::SmallVector<Accumulators> loop(mlir::Value first, mlir::Value end, int64_t step,
                                       llvm::ArrayRef<Accumulators> inits, LoopBody body);

  /// Stores the strips of tensors of all elements where the condition (null: everywhere) holds.
  void storeStrips(llvm::ArrayRef<Root> roots, llvm::ArrayRef<Strip> strips, mlir::Value condition);
  /// Stores what `lanes` rows or columns from number `start` on have one element of, by their first
  /// thread: the one that is number 0 of them.
  void storeNarrow(llvm::ArrayRef<Root> roots, int64_t lanes, const Index &start,
                   const RowPlace &place, mlir::Value condition, const Index &thread);

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
};

} // namespace tenon::codegen::cuda
