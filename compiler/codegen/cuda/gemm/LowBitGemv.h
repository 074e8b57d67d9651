// Products of few rows by weights of 4 or 8 bits behind scales (tn.decode_rows): a step of a
// decoder whose weights stream from memory as small as they are in the engine. Relies on
// graph/BlockRows.h for how a column's numbers lie and on ElementEmitter for the epilogue.
//
// The weights are A of each mma, so a tile's 16 columns are its rows; the activations are B. Of a
// panel of 32 of the depth lane 4 g + t takes the numbers 8 t .. 8 t + 7 of columns g and g + 8,
// from words to fragments in registers; what a block's numbers sum to is multiplied by the block's
// scale.
#pragma once

#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/codegen/cuda/gemm/RowNorm.h"
#include "compiler/graph/BlockRows.h"

namespace tenon::codegen::cuda {

/// Depth of a panel: blocks are whole ones.
inline constexpr int64_t kLowBitPanel = 32;
/// Numbers of a lane's part of a panel.
inline constexpr int64_t kLowBitPart = 8;
/// Columns of a tile, and floats from a row of accumulators to the next.
inline constexpr int64_t kLowBitColumns = 16, kLowBitSumPitch = kLowBitColumns + 4;

/// Rows beyond which weights become 16-bit floats in memory first: each thread block reads all of
/// the rows, which then takes longer.
inline constexpr int64_t kMaxLowBitRows = 64;

/// Y[rows, columns] = A[rows, depth] B[columns, depth] for B of words; at most kMaxLowBitRows rows.
struct LowBitProblem {
  uint32_t input = 0, weights = 0; ///< buffers
  mlir::Type element;              ///< of A and Y: f16 or bf16
  tn::Dims rowDims;
  mlir::AffineExpr rowCount;
  int64_t rows = 0, columns = 0; ///< rows at most
  /// Sums that make one element of the result: they lie columns / parts apart.
  int64_t parts = 1;
  tn::BlockRows layout;
  std::optional<GemvNorm> norm;

  int64_t partColumns() const { return columns / parts; }
  int64_t tileColumns() const { return kLowBitColumns / parts; } ///< of the result
  int64_t rowGroups() const { return (rows + kMmaColumns - 1) / kMmaColumns; }
  bool isOneRow() const { return rows == 1; }
  /// Rows of accumulators that a warp hands over.
  int64_t sumRows() const { return isOneRow() ? 1 : rowGroups() * kMmaColumns; }
  int64_t tiles() const { return (partColumns() + tileColumns() - 1) / tileColumns(); }
};

/// The blocks of a column that are a step of a warp, the warps side by side along the depth, and
/// the thread blocks, which go from tile to tile.
struct LowBitLayout {
  int64_t warps = 8;
  int64_t blocks = 4;
  int64_t grid = 1;
  /// Of a warp's ring in shared memory; 0: words come straight into registers, and a thread block
  /// has one tile.
  int64_t stages = 0;
  int64_t blocksPerSm = 1; ///< that a processor's registers must hold
  int64_t rows = 1;        ///< of accumulators: the code of more is other code
};

template <typename Visitor> void visitParameters(Visitor &visit, LowBitLayout &layout) {
  visit("warps", layout.warps);
  visit("blocks", layout.blocks);
  visit("grid", layout.grid);
  visit("stages", layout.stages);
  visit("blocks_per_sm", layout.blocksPerSm);
  visit("rows", layout.rows);
}

MatchResult<LowBitProblem> matchLowBitGemv(RegionBuilder &region);
LowBitLayout chooseLowBitLayout(const LowBitProblem &problem, const target::Target &gpu);

/// Bytes of shared memory, in this order: accumulators, twice if a thread block has several tiles,
/// so that each needs one barrier; the rows where they are few; what each block of a row sums to,
/// where numbers come with an excess; the stages.
struct LowBitMemory {
  int64_t sums = 0, rows = 0, totals = 0, stages = 0;

  int64_t total() const { return sums + rows + totals + stages; }
};
LowBitMemory lowBitMemory(const LowBitProblem &problem, const LowBitLayout &layout);
/// Words from a column's part of a stage to the next one's.
int64_t lowBitChunkPitch(const LowBitProblem &problem, const LowBitLayout &layout);
/// One kernel. False after a diagnostic.
bool emitLowBitGemv(RegionBuilder &region, const LowBitProblem &problem,
                    const LowBitLayout &layout);

} // namespace tenon::codegen::cuda
