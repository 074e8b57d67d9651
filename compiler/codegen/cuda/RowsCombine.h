// How partial results of a reduction are brought together: of two, of the threads of a row within a
// warp, a block and a cluster of blocks. Relies on the bodies that Reduce.cpp makes.
#pragma once

#include "compiler/codegen/cuda/Kernel.h"
#include "compiler/codegen/cuda/RowsJoint.h"

#include <optional>

namespace tenon::codegen::cuda {

/// The values of all accumulators of one reduction.
using Accumulators = llvm::SmallVector<mlir::Value>;

class Combiner {
public:
  /// Nothing if the body does not combine its accumulators in a known way.
  static std::optional<Combiner> of(mlir::linalg::GenericOp op);

  /// The result over the elements of both.
  Accumulators combine(mlir::OpBuilder &builder, mlir::Location location, mlir::ValueRange a,
                       mlir::ValueRange b) const;
  /// The same of many, in pairs.
  Accumulators combine(mlir::OpBuilder &builder, mlir::Location location,
                       llvm::SmallVector<Accumulators> all) const;

private:
  /// The op that combines the only accumulator with an element; null for an arg_reduce.
  mlir::Operation *single = nullptr;
  /// Of an arg_reduce: the comparison that an element must pass.
  mlir::Operation *comparison = nullptr;
};

/// The threads that work on a row: `perRow` of each block of a cluster of `blocks`. Where a warp
/// holds several rows `perRow` is a power of two; else it is a multiple of a warp, and a block has
/// one row.
struct RowThreads {
  int64_t perRow = 32;
  int64_t blocks = 1;
};

/// Combines over the threads of a row, once or several times in a kernel. All threads of the block
/// take part each time.
class ThreadCombiner {
public:
  /// `thread` is the number of the thread in the block. Stands at the kernel's beginning.
  ThreadCombiner(Kernel &kernel, const RowThreads &threads, mlir::Value thread);

  /// Before a loop over rows, in which `slot` (of i32, below `slots`) is another than in the last
  /// round: threads that are ahead write what those behind do not read any more.
  void enterLoop(int64_t slots);
  void setSlot(mlir::Value number) { slot = number; }

  /// What the partial results of the row's threads come to; every one of them gets it. `neutral`
  /// changes nothing that it is combined with.
  Accumulators combine(const Combiner &combiner, Accumulators partial, const Accumulators &neutral);

  /// Whether the warps of a row are so many that a round of two reductions can be asked for.
  static bool canCombineJointly(const RowThreads &threads);
  /// One round for one reduction, or two: of the second, `count` elements of the thread came to
  /// `own[1]` around the thread's own part of the first. All threads have as many.
  struct Round {
    const JointReduction *joint = nullptr; ///< null for one reduction
    llvm::SmallVector<Combiner, 2> combiners;
    Accumulators neutral;
    int64_t count = 0;
  };
  /// `send` hands out what the thread came to, `receive` what the row came to; between them a
  /// thread may do what needs neither. Each of the slots is received from before it is sent to
  /// again.
  void send(const Round &round, Accumulators own, mlir::Value slot);
  Accumulators receive(const Round &round, mlir::Value slot);
  /// Blocks of a cluster end together after a `send` without a `receive`.
  void leave();

private:
  void awaitCluster();
  int64_t warps() const;
  llvm::SmallVector<mlir::Value> arraysFor(const Accumulators &values, mlir::Value slot);
  void start(llvm::ArrayRef<mlir::Value> arrays, const Accumulators &values);
  void await();
  void exchange(llvm::ArrayRef<mlir::Value> arrays, const Accumulators &values);
  Accumulators gather(const Combiner &combiner, llvm::ArrayRef<mlir::Value> arrays,
                      const Accumulators &neutral);

  Kernel &kernel;
  RowThreads threads;
  /// Of i32: the lane in the warp, and the place of the warp's value among those of the row.
  mlir::Value lane, place;
  /// Of all rounds that are sent and received apart.
  llvm::SmallVector<mlir::Value> roundArrays;
  /// Null, or the part of the arrays that is used this time, of `slots`.
  mlir::Value slot;
  int64_t slots = 1;
  bool hasClusterStarted = false;
};

} // namespace tenon::codegen::cuda
