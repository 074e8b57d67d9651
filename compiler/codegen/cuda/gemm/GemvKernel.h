// A product of few rows for one block: every warp streams its part of the weights from memory
// straight into fragments of tensor cores, many loads under way at once and none of them through
// shared memory. Relies on TensorCore.h for fragments and on ElementEmitter for the epilogue.
//
// The weights are A of each mma, so a tile's 16 columns are its rows; the activations are B. Sums
// over the depth may be taken in any order: lane 4 g + t takes the depths 8 t .. 8 t + 7 of a panel
// of 32 for two mma, which are 16 bytes of a column's weights and 16 bytes of a row's activations.
//
// Packed weights lie in just the order in which a warp loads them. As [columns, depth] a load takes
// whole lines of 128 bytes of 4 columns: lanes with an even g hold one panel of a column, those
// with an odd g the next panel of the same column. Each panel's activations meet all of them; of
// the accumulators that makes, every other row is of use.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/Gemv.h"

namespace tenon::codegen::cuda {

class GemvKernel {
public:
  GemvKernel(RegionBuilder &region, const GemvProblem &problem, const GemvLayout &layout);

  /// The whole kernel and its step. False after a diagnostic.
  bool emit();

private:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  /// What a thread holds: weights of the panels under way, their activations, accumulators.
  struct State {
    Values weights, words, accumulators;

    Values all() const;
    State with(mlir::ValueRange values) const;
  };

  void place();
  /// Rows of activations that one mma takes are 8.
  int64_t rowGroups() const { return (p.rows + kMmaColumns - 1) / kMmaColumns; }
  /// Whether some of the `p.rows` rows that there is room for may not exist.
  bool hasRowTail(int64_t multiple) const {
    return p.rows % multiple != 0 || !tn::constantDim(p.rowCount);
  }
  bool hasTail() const {
    return p.depth % (layout.warps * layout.panels * layout.chunks * kGemvPanel) != 0;
  }
  int64_t tileColumns() const { return kMmaRows / p.parts; } ///< of the result

  // The main loop (GemvKernel.cpp).
  Value panelOf(const ThreadBuilder &t, Value chunk, int64_t panel) const;
  Value weightPanelOf(const ThreadBuilder &t, Value chunk, int64_t panel) const;
  Value isInside(const ThreadBuilder &t, Value panel) const;
  Value clamped(const ThreadBuilder &t, Value panel) const;
  int64_t columnOffset(int64_t panel, int64_t half) const;
  int64_t partOffset(int64_t panel, int64_t half) const;
  Values fetchPanel(const ThreadBuilder &t, Value tile, Value chunk, int64_t panel) const;
  Values activations(const ThreadBuilder &t, Value chunk, int64_t panel) const;
  void multiplyPanel(const ThreadBuilder &t, Value chunk, int64_t panel, mlir::ValueRange weights,
                     mlir::ValueRange words, llvm::MutableArrayRef<Value> accumulators) const;
  State addChunk(const ThreadBuilder &t, Value tile, Value chunk, Value isLast, State state) const;
  State addTile(const ThreadBuilder &t, Value tile, State state);
  void addTiles(mlir::ValueRange weights);
  Values joinLines(const ThreadBuilder &t, mlir::ValueRange accumulators) const;

  // From accumulators to the result (GemvStore.cpp).
  void finishTile(const ThreadBuilder &t, Value tile, mlir::ValueRange accumulators);
  void shareSums(const ThreadBuilder &t, Value base, mlir::ValueRange accumulators) const;
  void storeElement(Value tile, Value base);
  int64_t sumPitch() const { return kMmaRows + 4; }
  int64_t warpSums() const { return p.rows * sumPitch(); }
  int64_t bufferSums() const { return layout.warps * warpSums(); }
  int64_t sharedBytes() const;

  KernelFrame kernel;
  ElementEmitter emitter;
  const GemvProblem &p;
  GemvLayout layout;
  GemmTensors tensors;
  Value shared, thread, warp, group, quad; ///< lane 4 group + quad
  Value block, rowCount;
  Value weightPointer, inputPointer, normedPointer;
};

} // namespace tenon::codegen::cuda
