// A matrix product for one block, with tiles of both operands going through stages of shared memory
// by asynchronous copies: on tensor cores, or by FP32 arithmetic for tiles of f32; a plain form
// takes all strides and types. The accumulators meet in shared memory, over the blocks of a cluster
// where these share the depth, and every element goes through the region's epilogue on its way out.
// Relies on TensorCore.h for fragments, on TileLoader.h for where tiles come from and on
// ElementEmitter for the epilogue.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/TileLoader.h"

#include <memory>

namespace tenon::codegen::cuda {

class TiledGemmKernel {
public:
  /// Of matrices with strides.
  TiledGemmKernel(RegionBuilder &region, const GemmProblem &problem, const GemmTile &tile);
  /// Of operands that come by loaders of their own, in stages; of `problem` the strides are not
  /// read.
  TiledGemmKernel(RegionBuilder &region, const GemmProblem &problem, const GemmTile &tile,
                  std::unique_ptr<TileLoader> left, std::unique_ptr<TileLoader> right);

  /// The whole kernel and its step. False after a diagnostic.
  bool emit();

private:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  int64_t stageElements() const { return a->elements() + b->elements(); }
  int64_t sumPitch() const { return tile.columns + 8; }
  int64_t sharedBytes() const;
  void place();
  void placeTile(const ThreadBuilder &t, Value index);
  void copyStage(const ThreadBuilder &t, Value step, bool ofA, bool ofB) const;
  Values multiplyStage(const ThreadBuilder &t, Value step, mlir::ValueRange accumulators) const;
  Values multiplyByWarpgroup(const ThreadBuilder &t, Value step,
                             mlir::ValueRange accumulators) const;
  void multiplyPanels(const ThreadBuilder &t, Value step,
                      llvm::MutableArrayRef<Value> accumulators) const;
  Values multiplyStageFma(const ThreadBuilder &t, Value step, mlir::ValueRange accumulators) const;
  void startCopies(const ThreadBuilder &t, bool ofB) const;
  void startProducts();
  void turnStages(const ThreadBuilder &t, Value step) const;
  Values addProducts();
  Values addSlices();
  void placeSimt();
  Values addSimtProducts();
  void shareSums(mlir::ValueRange accumulators);
  void storeSums(mlir::ValueRange accumulators);
  void storeSumsFma(mlir::ValueRange accumulators);
  void shareSimtSums(mlir::ValueRange accumulators);
  bool storesFromRegisters() const;
  std::optional<int64_t> tileCount() const;
  int64_t blocksPerSm() const;
  int64_t blocksAtOnce() const;
  void goThroughTiles(int64_t tiles, int64_t blocks);
  void storeStrips(mlir::ValueRange accumulators);
  Indices placeOf(const Index &row, const Index &column, Index &linear);
  void storeResult();
  void storeUnit(Value unit, int64_t width);
  Values totalOf(const ThreadBuilder &t, Value row, Value column, int64_t width) const;
  void clusterBarrier();

  KernelFrame kernel;
  ElementEmitter emitter;
  const GemmProblem &p;
  GemmTile tile;
  mlir::Type element, stored; ///< as integers of the same width in shared memory
  std::unique_ptr<TileLoader> a, b;
  /// Of the plain form.
  const StridedLoader *simtA = nullptr, *simtB = nullptr;
  GemmTensors tensors;
  BlockPlace at;
  Value shared, rank, warpRow, warpColumn;
  Value firstStep, lastStep, sliceSteps; ///< of the depth, by stages
};

} // namespace tenon::codegen::cuda
