// The kernel of a persistent recurrence: blocks that run at the same time hold the weights in their
// registers through all steps and exchange the new states of all rows of the batch. Relies on the
// input's product with its weights being there.
#pragma once

#include "compiler/codegen/common/math/RecurrentCell.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"
#include "compiler/codegen/cuda/recurrent/PersistentLayout.h"
#include "compiler/codegen/cuda/recurrent/Tuning.h"

namespace tenon::codegen::cuda {

/// Tiles of the batch, each of which a group takes.
mlir::AffineExpr tilesOfBatch(tn::RecurrenceOp op, const PersistentShape &shape);

/// Adds a temporary of the region through which the blocks of a grid exchange their states, [tile
/// of the batch][slot][row][depth] elements, and the kernel that writes the first states and marks
/// all others as missing.
uint32_t emitFirstStates(RegionBuilder &region, tn::RecurrenceOp op, const PersistentShape &shape);

/// Adds the steps of a layer. A thread of a grid looks `looks` times in all for what other blocks
/// send; then the kernel reports TENON_KERNEL_WAITED and ends without waiting again.
void emitPersistentLayer(RegionBuilder &region, tn::RecurrenceOp op, const PersistentShape &shape,
                         int64_t looks = tuning::kGridLooks);

class PersistentKernel {
public:
  /// `states`, the temporary through which blocks exchange them, of a grid only.
  PersistentKernel(RegionBuilder &region, tn::RecurrenceOp op, const PersistentShape &shape,
                   uint32_t states);
  void emit(int64_t looks);

private:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;
  /// An element of the new states: its row in the chunk, in the group's rows, in the batch (i64);
  /// its unit in the block and in the layer; its place among what the block keeps. All others i32.
  struct Element {
    Value inChunk, inTile, row, local, unit, kept;
  };
  Element elementOf(const ThreadBuilder &t, Value chunkRow, Value inChunk, Value local) const;
  Value isThere(const ThreadBuilder &t, const Element &of) const;

  Value input(Value operand) const;
  Value usedRows(const ThreadBuilder &t) const;
  Value output(Value result) const;
  Value readF32(const ThreadBuilder &t, Value buffer, Value index) const;
  void write(const ThreadBuilder &t, Value f32, Value buffer, Value index) const;
  Value sharedF32(const ThreadBuilder &t, Value array, Value index) const;
  void setSharedF32(const ThreadBuilder &t, Value f32, Value array, Value index) const;
  void divideShared(const ThreadBuilder &t);
  Element elementAt(const ThreadBuilder &t, Value chunkRow, int64_t round) const;
  void eachElement(const ThreadBuilder &t,
                   llvm::function_ref<void(const ThreadBuilder &, const Element &)> body) const;
  Value lengthOf(const ThreadBuilder &t, const Element &of) const;
  Value timeOf(const ThreadBuilder &t, const Element &of, Value number) const;
  Value stateIndex(const ThreadBuilder &t, Value time, const Element &of) const;

  Value weightAt(const ThreadBuilder &t, Value column, Value k) const;
  Value weightWord(const ThreadBuilder &t, Value number) const;
  Value keptWord(const ThreadBuilder &t, Value number) const;
  void holdWeights(const ThreadBuilder &t);
  Values fragmentOfA(const ThreadBuilder &t, int64_t number) const;
  /// Vectors (16 bytes each, as words) of the state from the L2, at these elements, once all are
  /// there. Returns the looks that are left.
  Value loadStates(const ThreadBuilder &t, Value state, llvm::ArrayRef<Value> elements, Value looks,
                   llvm::SmallVectorImpl<Values> &vectors) const;
  int64_t vectorsFromL2() const;
  void reportWait(const ThreadBuilder &t) const;
  /// Sums of a warp: [tile][8 rows], 4 floats of each as mma.sync leaves them.
  using Totals = llvm::SmallVector<Values>;
  Value multiplyHalves(const ThreadBuilder &t, Value state, Value chunkRow, Value looks,
                       Totals &totals) const;
  void storeTotals(const ThreadBuilder &t, llvm::ArrayRef<Values> totals) const;
  Value multiplyFloats(const ThreadBuilder &t, Value state, Value chunkRow, Value looks) const;
  void storeSum(const ThreadBuilder &t, Value sum, Value row, Value column) const;

  void start(const ThreadBuilder &t) const;
  Values loadInputs(const ThreadBuilder &t, Value number, Value chunkRow) const;
  Values sumsOf(const ThreadBuilder &t, const Element &of) const;
  Values sumsOf(int64_t round, llvm::ArrayRef<Values> totals) const;
  Value newState(const ThreadBuilder &t, const Element &of, mlir::ValueRange sums,
                 mlir::ValueRange inputs, Value isRun) const;
  Value keepState(const ThreadBuilder &t, Value number, const Element &of, mlir::ValueRange sums,
                  mlir::ValueRange inputs) const;
  /// A word of a step's new states (i32) and the element that it begins with, which this thread
  /// writes where `isOwn` holds (null: always).
  struct Word {
    Value bits;
    Element of;
    Value isOwn;
  };
  using Words = llvm::SmallVector<Word>;
  Words computeGates(const ThreadBuilder &t, Value number, Value chunkRow, mlir::ValueRange inputs,
                     llvm::ArrayRef<Values> totals) const;
  Words computeDirect(const ThreadBuilder &t, Value number, Value chunkRow, mlir::ValueRange inputs,
                      llvm::ArrayRef<Values> totals) const;
  Value isRun(const ThreadBuilder &t, Value number, const Element &of) const;
  Word pairOf(const ThreadBuilder &t, const Element &of, Value f32) const;
  void sendWord(const ThreadBuilder &t, Value number, const Word &word) const;
  Value arrivalsOf(const ThreadBuilder &t, Value number) const;
  void expectState(const ThreadBuilder &t, Value number) const;
  void awaitState(const ThreadBuilder &t, Value number) const;
  void markMissing(const ThreadBuilder &t, Value number, const Word &word) const;
  void orderMarks(const ThreadBuilder &t) const;
  void writeStates(const ThreadBuilder &t, Value number, llvm::ArrayRef<Word> words) const;
  Value stateOf(const ThreadBuilder &t, Value number) const;
  bool isCluster() const { return shape.isCluster(); }
  Values runChunk(const ThreadBuilder &t, Value number, Value chunkRow, mlir::ValueRange carried,
                  llvm::function_ref<Values()> following) const;
  Value runWhole(const ThreadBuilder &t, Value looks) const;
  Value runSteps(const ThreadBuilder &t, Value looks) const;
  void finish(const ThreadBuilder &t) const;

  RegionBuilder &region;
  mutable tn::RecurrenceOp op; ///< whose accessors are not const
  PersistentShape shape;
  KernelFrame frame;
  Value sharedStates, arrivals, globalStates, status;  ///< of a cluster; of a grid
  Value thread, lane, warp, part, group, rank;         ///< i32
  Value tile, steps, batch;                            ///< i64
  Value sums, before, cells, staged, lengths, weights; ///< in shared memory
  Values held;                                         ///< words of the thread's weights
};

} // namespace tenon::codegen::cuda
