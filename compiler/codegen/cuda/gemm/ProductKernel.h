// A matrix product for one block: on tensor cores, with tiles of both operands going through stages
// of shared memory by asynchronous copies, or by FP32 arithmetic. The sums meet in shared memory,
// over the blocks of a cluster where these share the depth, and every element goes through the
// region's epilogue on its way out. Relies on TensorCore.h for fragments and on ElementEmitter for
// the epilogue.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/ProductMatch.h"

namespace tenon::codegen::cuda {

/// How a product is laid out: a warp does warpRows x warpColumns of a block's tile.
struct ProductTile {
  int64_t rows = 64, columns = 64, depth = 64;
  int64_t warpRows = 32, warpColumns = 32;
  int64_t stages = 3;
  int64_t splits = 1; ///< blocks of a cluster, each with a part of the depth

  /// FP32 arithmetic: a thread does warpRows x warpColumns, stages and splits are 1.
  bool isPlain = false;

  int64_t threads() const {
    int64_t parts = rows / warpRows * (columns / warpColumns);
    return isPlain ? parts : parts * kWarp;
  }
};

template <typename Visitor> void visitParameters(Visitor &visit, ProductTile &tile) {
  visit("tile", tile.rows, tile.columns, tile.depth);
  visit(tile.isPlain ? "thread" : "warp", tile.warpRows, tile.warpColumns);
  visit("stages", tile.stages);
  visit("split_k", tile.splits);
}

class ProductKernel {
public:
  ProductKernel(RegionBuilder &region, const ProductProblem &problem, const ProductTile &tile);

  /// The whole kernel and its step. False after a diagnostic.
  bool emit();

private:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  /// Where an operand's tiles come from: `outer` rows of contiguous elements.
  struct Source {
    const ProductOperand *operand;
    bool depthIsInner;
    mlir::AffineExpr outerCount, innerCount, outerStride;
    int64_t outerSize, innerSize; ///< of a tile
    Value pointer;                ///< of the batch's matrix
    Value fixed;                  ///< first row of A, first column of B

    int64_t pitch() const { return innerSize + kRowPadding / 2; }
    int64_t elements() const { return outerSize * pitch(); }
  };

  ThreadBuilder code() { return ThreadBuilder(kernel.builder, kernel.location); }
  Value size32(mlir::AffineExpr expression);
  Value size64(mlir::AffineExpr expression);
  int64_t stageElements() const { return a.elements() + b.elements(); }
  int64_t sumPitch() const { return tile.columns + 8; }
  int64_t sharedBytes() const;
  void place();
  void setSource(Source &source, const ProductOperand &operand, unsigned freeDim, int64_t size);
  Value operandPointer(const ProductOperand &operand);
  void copy(const ThreadBuilder &t, const Source &source, Value depth, Value to) const;
  void copyStage(const ThreadBuilder &t, Value step, bool ofA, bool ofB) const;
  Values multiplyStage(const ThreadBuilder &t, Value step, mlir::ValueRange sums) const;
  void waitHere();
  Values addProducts();
  void placePlain();
  void fillPlain(const ThreadBuilder &t, const ProductOperand &operand, Value pointer,
                 unsigned freeDim, Value first, Value step, Value to) const;
  Values addPlainProducts();
  void shareSums(mlir::ValueRange sums);
  void sharePlainSums(mlir::ValueRange sums);
  void storeResult();
  void storeUnit(ElementEmitter &emitter, Value unit, int64_t width);
  Values totalOf(const ThreadBuilder &t, Value row, Value column, int64_t width) const;
  void clusterBarrier();

  Kernel kernel;
  const ProductProblem &p;
  ProductTile tile;
  mlir::Type element, half;
  Source a, b;
  ProductTensors tensors;
  Value shared, thread, rank, warpRow, warpColumn;
  Value firstStep, lastStep;
  Value batchIndex;
  Value rowCount, columnCount, depthCount; ///< i32
};

} // namespace tenon::codegen::cuda
