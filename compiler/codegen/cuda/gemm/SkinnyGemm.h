// A product of some rows by a constant matrix on sm_90a, so small that all its blocks run at once
// and most of its time is waiting. What does not depend on the kernels before this one, the
// weights, is copied before it waits for them: as many stages of the depth as shared memory holds,
// which for most is all. One thread copies, warpgroups multiply 64 rows each. The blocks of
// a cluster may share a tile's depth: each then finishes some of its rows. Relies on Warpgroup.h
// for products, StageRing.h for copies, ElementEmitter for what follows the product.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/StageRing.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"
#include "compiler/codegen/cuda/gemm/SkinnyLayout.h"

namespace tenon::codegen::cuda {

/// Y[rows, columns] = A[rows, depth] B[columns, depth]^T, both stored so, B constant.
struct SmallProblem {
  mlir::Type element;
  uint32_t a = 0, b = 0; ///< buffers
  tn::Dims rowDims;
  mlir::AffineExpr rowCount; ///< which may vary; `sizes` has how many there are at most
  HalfGemm sizes;
  SkinnyLayout layout;

  /// Whether a tile may have rows that do not exist.
  bool hasRowTail() const { return !rowCount.isMultipleOf(layout.rows); }
  int64_t columnTiles() const { return sizes.columns / layout.columns; }
  /// Of a block.
  int64_t steps() const { return layout.steps(sizes); }
  int64_t finishedRows() const { return layout.rows / layout.splitK; }
  /// Threads that multiply: a warpgroup for each kSmallRows of a tile.
  int64_t multipliers() const { return layout.rows / kSmallRows * kWarpgroup; }
};

/// The problem of a region, with dispatch's layout.
MatchResult<SmallProblem> matchSkinnyGemm(RegionBuilder &region);
/// One kernel. False after a diagnostic.
bool emitSkinnyGemm(RegionBuilder &region, const SmallProblem &problem);

class SkinnyGemm {
public:
  SkinnyGemm(RegionBuilder &region, const SmallProblem &problem);

  /// The whole kernel and its step. False after a diagnostic.
  bool emit();

private:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;
  using PipelineState = StageRing::PipelineState;

  void place();
  void copyA(const ThreadBuilder &t, Value step, Value stage) const;
  void copyB(const ThreadBuilder &t, Value step, Value stage) const;
  /// The stages that are filled the first time around the ring: B, and once it may be read A.
  void copyFirst(const ThreadBuilder &t, bool isA) const;
  void copyOthers(const ThreadBuilder &t) const;
  Values multiply(const ThreadBuilder &t) const;
  /// Stores the warpgroup's accumulators where they are finished.
  void storeAccumulators(const ThreadBuilder &t, llvm::ArrayRef<Value> accumulators) const;
  /// The block's barrier, or the cluster's, behind which accumulators that were handed over are
  /// seen.
  void syncBlocks(const ThreadBuilder &t) const;
  /// The accumulators of eight neighbours of a row (of those that this block finishes), all slices
  /// added.
  Values sumsAt(const ThreadBuilder &t, Value row, Value column) const;
  void finishRows(const ThreadBuilder &t);
  void finishPiece(Value piece);

  StageOperands operands() const {
    return {p.element, RightOrder::DepthInner, p.multipliers() / kWarpgroup, p.layout.columns};
  }
  bool isSplitK() const { return p.layout.splitK > 1; }

  KernelFrame kernel;
  ElementEmitter emitter;
  const SmallProblem &p;
  GemmTensors tensors;
  StageRing ring;
  Value aMap, bMap, thread, rowCount;
  Value exchange; ///< pointer to shared memory: floats [slices][rows that are finished][columns]
  /// Where the block's part begins (i32): in the result, in the depth, and its rank in the cluster.
  Value firstRow, firstColumn, firstDepth, slice;
};

} // namespace tenon::codegen::cuda
