// What kernels of rows of constant length share: which elements a thread has, how its part of a
// reduction is masked, how results of rows are stored. Relies on RowReductionConfig fitting the
// rows.
#pragma once

#include "compiler/codegen/cuda/rows/Rows.h"
#include "compiler/codegen/cuda/rows/StripEmitter.h"

namespace tenon::codegen::cuda {

class RowsFrame {
protected:
  RowsFrame(RegionBuilder &region, const RowsWork &work, const RowReductionConfig &layout);
  virtual ~RowsFrame() = default;

  /// Groups of rows that a block works on at once, in all.
  mlir::AffineExpr groupCount();
  /// Moves the thread to its row of a group: sets `row`, `isRow`, `rowPlace` and `strips`.
  void placeIn(const Index &group);
  /// Where a thread is, to come back to.
  struct Place {
    Index row;
    mlir::Value isRow;
    RowPlace rowPlace;
    llvm::SmallVector<Strip> strips;
  };
  Place here() const { return {row, isRow, rowPlace, strips}; }
  void returnTo(const Place &place);
  /// The thread's row in a group; beyond the last row that one is repeated, since all threads must
  /// meet at barriers.
  Index rowIn(const Index &group, mlir::Value &isRow);
  /// The number of a strip of the thread among those of its row, and whether it is one of them.
  Index stripNumber(int64_t step, mlir::Value &isInside);

  using Round = ThreadCombiner::Round;
  /// The round that does all reductions, if one can.
  std::optional<Round> onlyRound();
  /// All reductions of the current rows, by that round or each in one of its own; `number` is that
  /// of the loop's round, null outside of a loop.
  void reduceRows(ThreadCombiner &threads, const std::optional<Round> &round, mlir::Value number);
  /// What the warp's elements of the current rows come to, and what the thread's do.
  virtual Accumulators reduceOfWarp(ThreadCombiner &threads, const Round &round);
  virtual Accumulators reduceOwn(const Round &round);
  virtual Accumulators reduceOwn(mlir::linalg::GenericOp op, const Combiner &combiner,
                                 const Accumulators &neutral) = 0;
  void holdResults(llvm::ArrayRef<mlir::Value> ofRound);

  /// From here on the elements of `tensor` at these places are those of the vectors, one behind the
  /// other.
  void holdVectors(mlir::Value tensor, llvm::ArrayRef<mlir::Value> vectors,
                   llvm::ArrayRef<Indices> places);
  /// By the first thread of each row.
  void storeNarrow();

  KernelFrame kernel;
  StripEmitter emitter;
  IndexMath &math;
  mlir::OpBuilder &builder;
  mlir::Location location;
  const RowsWork &work;
  const RowReductionConfig &layout;

  /// The number of the thread in its block, and among the threads of its row; of the block (or the
  /// cluster of blocks) in the grid.
  Index thread, inRow, firstGroup;
  Index row;
  mlir::Value isRow; ///< null if every thread has a row
  RowPlace rowPlace;
  llvm::SmallVector<Strip> strips;

private:
  std::optional<JointReduction> joint;
};

} // namespace tenon::codegen::cuda
