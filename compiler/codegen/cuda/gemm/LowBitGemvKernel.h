// The kernel of few rows by weights of few bits. Words come straight into registers, or, where they
// lie on borders of 16 bytes and every warp has whole steps of them, by asynchronous copies of 16
// bytes into a ring of shared memory, which look up a quarter of the lines that loads of 4 bytes do
// and go on to the block's next tile while this one is added up. The rows lie in shared memory too,
// normed or as they are, where they are few. Relies on LowBitGemv.h for who takes which numbers.
#pragma once

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/LowBitGemv.h"

namespace tenon::codegen::cuda {

class LowBitGemv {
public:
  LowBitGemv(RegionBuilder &region, const LowBitProblem &problem, const LowBitLayout &layout)
      : kernel(region, layout.warps * kWarp), emitter(kernel), p(problem), layout(layout),
        memory(lowBitMemory(problem, layout)) {}

  /// The whole kernel and its step. False after a diagnostic.
  bool emit();

private:
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  /// Columns of a tile, numbers of a lane's part of a panel, and accumulators of a lane for 8 rows.
  static constexpr int64_t kColumns = kLowBitColumns, kPart = kLowBitPart, kSums = 4;

  /// Of a lane: the words of two columns for each panel of a block, and the header of both.
  struct Block {
    Values words;              ///< [panel][column][word]
    Value scales[2], zeros[2]; ///< f32; zeros only if blocks have them
  };

  int64_t wordsOfPart() const { return kPart * p.layout.bits / 32; }
  int64_t panelsOfBlock() const { return p.layout.block / kLowBitPanel; }
  int64_t rowGroups() const { return p.rowGroups(); }
  int64_t blocksOfWarp() const { return llvm::divideCeilSigned(p.layout.blocks(), layout.warps); }
  int64_t steps() const { return llvm::divideCeilSigned(blocksOfWarp(), layout.blocks); }
  int64_t warpSums() const { return p.sumRows() * kLowBitSumPitch; }

  // Through shared memory: each warp has a ring of stages of its own, of the words of a step.
  bool isStaged() const { return layout.stages > 0; }
  int64_t chunkWords() const { return layout.blocks * p.layout.blockWords(); } ///< of a column
  int64_t chunkPitch() const { return lowBitChunkPitch(p, layout); }
  int64_t tilesOfBlock() const { return llvm::divideCeilSigned(p.tiles(), layout.grid); }
  int64_t stages() const { return layout.stages; }
  bool holdsRows() const { return memory.rows > 0; }
  bool holdsTotals() const { return memory.totals > 0; }
  /// 8 bits as bf16.
  bool isWideBrain() const { return p.layout.bits == 8 && p.element.isBF16(); }
  /// What fragments hold more than the words do.
  int64_t excess() const;

  // The way of words and rows (LowBitGemvKernel.cpp).
  void place();
  Value columnOf(const ThreadBuilder &t, Value tile, Value inTile) const;
  Value stageAt(const ThreadBuilder &t, Value number) const;
  void copyStep(const ThreadBuilder &t, Value tile, Value step, Value number) const;
  void copyAhead(const ThreadBuilder &t, Value tile, Value step, Value number) const;
  void copyRows();
  void addUp(const ThreadBuilder &t, Value row, Value place, llvm::ArrayRef<Value> words,
             Value isThere) const;
  void addTiles();
  Values addStaged(const ThreadBuilder &t, Value tile, Value firstNumber) const;
  Values addFetched(const ThreadBuilder &t, std::optional<RowNorm> &norm);
  Value blockOf(const ThreadBuilder &t, Value step, int64_t number) const;
  Values fetch(const ThreadBuilder &t, Value step) const;
  void bringRows(std::optional<RowNorm> &norm);
  void finish(const ThreadBuilder &t, Value tile, Value base, mlir::ValueRange accumulators);

  // From words to sums (LowBitGemvBlocks.cpp).
  void readBlock(const ThreadBuilder &t, Value column, Values &words) const;
  Block unflatten(mlir::ValueRange values, int64_t number) const;
  Values pairsOf(const ThreadBuilder &t, llvm::ArrayRef<Value> words) const;
  Values activations(const ThreadBuilder &t, Value depth, int64_t rowGroup) const;
  Values totalsOf(const ThreadBuilder &t, Value block, int64_t rowGroup) const;
  void addBlock(const ThreadBuilder &t, Value block, const Block &numbers,
                llvm::MutableArrayRef<Value> accumulators) const;
  Values addStep(const ThreadBuilder &t, Value step, mlir::ValueRange fetched,
                 mlir::ValueRange accumulators) const;
  RowNorm::Order order() const;

  KernelFrame kernel;
  ElementEmitter emitter;
  const LowBitProblem &p;
  LowBitLayout layout;
  LowBitMemory memory;
  GemmTensors tensors;
  Value thread, warp, group, quad, rowCount;
  Value inputPointer, weightPointer, columnPointers[2], shared, rowPointer, totalPointer;
};

} // namespace tenon::codegen::cuda
