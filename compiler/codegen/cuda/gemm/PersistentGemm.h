// A large product of 16-bit floats, or of 8-bit ones (graph/Float8.h), on sm_90a with an epilogue
// of our own: one block a processor goes from tile to tile. One thread of it copies boxes of both
// operands into a ring of stages, two warpgroups multiply them, each for half of a tile's rows, and
// hand their accumulators over in shared memory to three warps that finish them while the next tile
// is multiplied. Relies on Warpgroup.h for products, AsyncCopy.h for copies and barriers,
// ElementEmitter for the epilogue.
//
// Blocks do not form clusters: those that read the same boxes at the same time get them from the
// second-level cache at more than twice the rate at which it serves different ones (measured on an
// H200: 10.8 TB/s into shared memory, with clusters and multicast 8.2).
//
// Accumulators are exchanged in the product's type: rounded as one that is stored by itself.
//
// Two neighbours of 8 bits along the depth are one of 16 wherever they are only moved: boxes,
// stages and descriptors are the same, an instruction multiplies twice as many.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/StageRing.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"

namespace tenon::codegen::cuda {

/// A block's tile of the result, and the depth of a stage of its operands in units of 16 bits.
inline constexpr int64_t kLargeRows = 128, kLargeColumns = 256, kLargeDepth = 64;

/// Y[rows, columns] = A[rows, depth] B[depth, columns]; A is row-major. Columns and depth are
/// multiples of those of a tile.
struct LargeProblem {
  mlir::Type element;                          ///< of the operands
  mlir::Type sum;                              ///< of the product: 16-bit floats
  double factor = 1;                           ///< of the sums
  uint32_t a = 0, b = 0;                       ///< buffers
  RightOrder order = RightOrder::ColumnsInner; ///< of B
  tn::Dims rowDims;
  mlir::AffineExpr rowCount;      ///< which may vary
  RowRange rows;                  ///< what it can be
  int64_t columns = 0, depth = 0; ///< the depth in units of 16 bits
  int64_t blocks = 0;             ///< at most one a processor

  int64_t columnTiles() const { return columns / kLargeColumns; }
  int64_t tiles(int64_t ofRows) const {
    return (ofRows + kLargeRows - 1) / kLargeRows * columnTiles();
  }
  int64_t steps() const { return depth / kLargeDepth; }
};

/// The problem of a region that this kernel can do, whatever its size.
MatchResult<LargeProblem> matchPersistentGemm(RegionBuilder &region);
/// One kernel. False after a diagnostic.
bool emitPersistentGemm(RegionBuilder &region, const LargeProblem &problem);

/// Warpgroups that multiply, and warps that finish: those of another warpgroup beside the one that
/// copies.
inline constexpr int64_t kGroups = kLargeRows / kGroupRows;
inline constexpr int64_t kFinishWarps = kWarpsOfGroup - 1;
/// What a warpgroup exchanges: its half of a tile, in boxes of kTileColumns columns.
inline constexpr int64_t kExchangeBytes = kGroupRows * kLargeColumns * 2;

class PersistentGemm {
public:
  PersistentGemm(RegionBuilder &region, const LargeProblem &problem);

  /// The whole kernel and its step. False after a diagnostic.
  bool emit();

private:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  using PipelineState = StageRing::PipelineState;
  /// Where a tile begins (i32).
  struct Corner {
    Value row, column;
  };

  void place();
  Corner cornerOf(const ThreadBuilder &t, Value tile) const;
  Values forTiles(const ThreadBuilder &t, mlir::ValueRange inits, ThreadBuilder::LoopBody body);
  void copyTiles(const ThreadBuilder &t);
  void copyStage(const ThreadBuilder &t, Value step, const Corner &corner,
                 const PipelineState &state) const;
  void multiplyTiles(const ThreadBuilder &t);
  Values addStages(const ThreadBuilder &t, PipelineState &state) const;

  // From accumulators to the result (PersistentGemmStore.cpp).
  Value exchangedTile(const ThreadBuilder &t, Value group) const;
  /// The barrier of a warpgroup that tells that its accumulators are there, and that they have been
  /// taken.
  Value accumulatorsFull(const ThreadBuilder &t, Value group) const;
  Value accumulatorsEmpty(const ThreadBuilder &t, Value group) const;
  void storeAccumulators(const ThreadBuilder &t, mlir::ArrayRef<Value> accumulators) const;
  void finishTiles(const ThreadBuilder &t);
  void finishHalf(const ThreadBuilder &t, const Corner &corner, Value group, Value parity);

  void finishUnit(const ThreadBuilder &t, const Corner &corner, Value group, Value unit);

  KernelFrame kernel;
  ElementEmitter emitter;
  const LargeProblem &p;
  GemmTensors tensors;
  StageRing ring;
  Value aMap, bMap, thread;
  Value rowCount, rowTiles, tiles;
  /// Pointers to shared memory: the accumulator exchange, and its barriers.
  Value exchangedAccumulators, exchangeBarriers;
  Value warpgroup; ///< of those that multiply, from 0
};

} // namespace tenon::codegen::cuda
