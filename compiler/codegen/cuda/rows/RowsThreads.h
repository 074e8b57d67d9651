// Brings together what the threads of a row have of a reduction: within a warp, a block and a
// cluster of blocks. Relies on all threads of the row taking part each time.
#pragma once

#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/rows/RowsCombine.h"
#include "compiler/codegen/cuda/rows/RowsJoint.h"
#include "compiler/dispatch/RowReductionConfig.h"

namespace tenon::codegen::cuda {

using dispatch::kStagedBytes, dispatch::RowReductionConfig, dispatch::RowThreads;

/// Combines over the threads of a row, once or several times in a kernel.
class ThreadCombiner {
public:
  /// `thread` is the number of the thread in the block. Stands at the kernel's beginning.
  ThreadCombiner(KernelFrame &kernel, const RowThreads &threads, mlir::Value thread);

  /// Before a loop over rows, whose rounds are numbered from 0 on (i32).
  void enterLoop();
  void setRound(mlir::Value number) { current = number; }

  /// What the partial results of the row's threads come to; every one of them gets it. `neutral`
  /// changes nothing that it is combined with.
  Accumulators combine(const Combiner &combiner, Accumulators partial, const Accumulators &neutral);

  /// Over so many lanes, a power of two, that stand `stride` (another one) apart.
  Accumulators combineLanes(const Combiner &combiner, int64_t lanes, Accumulators values,
                            int64_t stride = 1) const;

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
  /// What the warp's threads came to: each of them gets it.
  Accumulators ofWarp(const Round &round, Accumulators own) const;
  /// `send` hands out what the warp came to, `receive` what the row came to; between them a
  /// thread may do what needs neither. In a loop a round is received before the next but one is
  /// sent; outside of one many may be sent, and are received in that order. Each that is sent is
  /// received, since the blocks of a cluster end when they have nothing to wait for.
  void send(const Accumulators &ofWarp, mlir::Value number);
  Accumulators receive(const Round &round, mlir::Value number);

private:
  /// Where the warps of the row leave their values: an array for each accumulator, and where they
  /// are stored asynchronously a barrier that counts the bytes. In a loop there are two arrays, for
  /// rounds of even and odd numbers: who sends the next but one has received the next, to which
  /// everyone else came by receiving this one.
  struct Exchange {
    bool isPair = false;
    llvm::SmallVector<mlir::Type> types;
    llvm::SmallVector<mlir::Value> arrays;
    mlir::Value barrier;
  };
  Exchange exchangeOf(const Accumulators &values);
  /// Two floats as one word, which is stored at once; others as they are.
  static bool isPair(const Accumulators &values);
  Accumulators packed(const Accumulators &values) const;
  /// In a cluster whose blocks end with their rows.
  bool isAsynchronous() const { return threads.blocks > 1 && !isLoop; }
  mlir::Value makeBarrier();
  /// The part of an array that a round uses.
  mlir::Value ofRound(mlir::Value array, mlir::Type element, mlir::Value number);
  void start(const Exchange &exchange, mlir::Value number, const Accumulators &values);
  void await(const Exchange &exchange);
  Accumulators load(const Exchange &exchange, mlir::Value number, mlir::Value position);
  Accumulators gather(const Combiner &combiner, const Exchange &exchange, mlir::Value number,
                      const Accumulators &neutral);
  void awaitCluster();

  int64_t warps() const;
  /// Asynchronous stores move words of 32 and 64 bits.
  mlir::Type kept(mlir::Type type) const;
  mlir::Value toKept(mlir::Value value) const;
  mlir::Value fromKept(mlir::Type type, mlir::Value value) const;
  /// The value of any type of lane ^ mask.
  mlir::Value shuffle(mlir::Value value, int64_t mask) const;
  /// What moments of such parts come to.
  Accumulators combineMoments(int64_t lanes, int64_t count, llvm::ArrayRef<Accumulators> parts,
                              mlir::Value first) const;
  /// Of a joint round: what `parts` of each of so many lanes, of `count` elements each, come to;
  /// `first` gives moments one part's first result, the same in all lanes.
  Accumulators combineJointly(const Round &round, int64_t lanes, int64_t count,
                              llvm::ArrayRef<Accumulators> parts,
                              llvm::function_ref<mlir::Value()> first) const;

  KernelFrame &kernel;
  /// Builds where the kernel's builder stands.
  ThreadBuilder t;
  RowThreads threads;
  /// Of i32: the thread in the block, its lane in the warp, and the place of the warp's value among
  /// those of the row.
  mlir::Value thread, lane, place;
  /// Of the rounds that are sent and received apart: in a loop of all, else of each.
  llvm::SmallVector<Exchange, 1> apart;
  size_t received = 0;
  /// Null outside of a loop.
  mlir::Value current;
  bool isLoop = false, hasClusterStarted = false;
  /// Tells the cluster that the block runs; before it one thread makes barriers.
  mlir::Operation *begin = nullptr;
};

} // namespace tenon::codegen::cuda
