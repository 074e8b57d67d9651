// The kernel for rows that are copied to shared memory ahead of their use: while a row is worked on
// the next one is on its way. Relies on each thread reading only what it has copied itself, so that
// the copies need no barrier.
#pragma once

#include "compiler/codegen/cuda/rows/RowsFrame.h"

namespace tenon::codegen::cuda {

class StagedRows : RowsFrame {
public:
  StagedRows(RegionBuilder &region, const RowsWork &work, const RowReductionConfig &layout);

  bool run();

private:
  // What comes from memory (RowsStaged.cpp).

  /// Starts copies of a group's rows to a stage, if there is such a group. Each strip can be waited
  /// for by itself.
  void copy(const Index &group, mlir::Value isThere, mlir::Value stage);
  /// The address of a strip of one of the inputs in shared memory.
  mlir::Value stagedAt(size_t input, int64_t step, mlir::Value stage);

  /// A tensor that all rows read: its strips of this thread, or a copy of its pointer that is made
  /// for each row. Held wider than in memory a row of it would take too many registers.
  struct Parameter {
    mlir::Value tensor;
    llvm::SmallVector<mlir::Value> strips;
    mlir::Value pointer;
  };
  /// Loads what blocks that stay can hold: for other blocks it would not be used often.
  void holdParameters();
  void copyPointers();
  mlir::Value parameterAt(const Parameter &parameter, int64_t step);

  /// The next pass waits for each strip of its rows, behind which the copies of so many rows have
  /// been started; those after it find them there.
  void expectRows(int64_t behind) { rowsBehind = behind; }
  void endPass() { rowsBehind.reset(); }
  /// Lets the elements of a strip come from what is read here, once, until the next call.
  void openPass(const Strip &strip, int64_t step);

  // The loop (RowsStagedLoop.cpp).

  /// The groups of rows that a block works on.
  struct Groups {
    Index first, end, step;
  };
  Groups groups();
  /// The same, of which nothing is known.
  Index opaque(const Index &index);
  mlir::Value isThere(const Groups &all, const Index &group);
  void emitRounds(ThreadCombiner &threads, const std::optional<Round> &round, const Groups &all,
                  const Index &group, mlir::Value number);
  void emitOverlapped(ThreadCombiner &threads, const Round &round, const Groups &all,
                      const Index &group, mlir::Value number);
  void finish();
  /// Reduces all groups of a block before any of them is stored (RowsStagedTogether.cpp).
  void emitTogether(ThreadCombiner &threads, const Round &round, const Groups &all);

  Accumulators reduceOfWarp(ThreadCombiner &threads, const Round &round) override {
    return finishReduction(threads, round, beginReduction(threads, round));
  }
  /// In two parts, between which a thread may receive another row's results.
  Accumulators beginReduction(ThreadCombiner &threads, const Round &round);
  Accumulators finishReduction(ThreadCombiner &threads, const Round &round, Accumulators begun);
  Accumulators reduceOwn(const Round &round) override;
  /// The moments of what the thread has of the row, in one pass; or its sum and sum of squares
  /// (RowsStagedMoments.cpp).
  Accumulators ownMoments(const Round &round);
  Accumulators ownPowerSums(const Round &round);
  /// Whether the moments come from those sums.
  bool isByPowerSums(const Round &round);
  Accumulators reduceOwn(mlir::linalg::GenericOp op, const Combiner &combiner,
                         const Accumulators &neutral) override;
  void storeStrip(int64_t step);
  void storeWide();

  /// Whether the next row takes the place of this one.
  bool isRefilled() const { return layout.stages == 1 && layout.groupsPerBlock == 0; }
  /// The stage `distance` after one.
  mlir::Value stageAfter(mlir::Value stage, int64_t distance);
  mlir::Value i32(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);

  mlir::Value memory;
  /// Of copies that the cache keeps: the policy, and a part of their addresses. Else null.
  mlir::Value keeping, hidden;
  /// Of the rows that are worked on.
  mlir::Value currentStage;
  std::optional<int64_t> rowsBehind;
  llvm::SmallVector<Parameter> parameters;
};

} // namespace tenon::codegen::cuda
