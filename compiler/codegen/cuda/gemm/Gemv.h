// Products of few rows with constant weights: a step of a decoder is a chain of these, and takes as
// long as its weights take to come from memory. Relies on GemmMatch.h for the operands and on
// HalfGemm.h for which products it takes.
#pragma once

#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/codegen/cuda/gemm/RowNorm.h"

#include <optional>

namespace tenon::codegen::cuda {

/// Depth of a panel: 16 bytes for each of the four lanes that share a row of an mma.
inline constexpr int64_t kGemvPanel = 32;

/// Y[rows, columns] = A[rows, depth] B[depth, columns]; at least one row.
struct GemvProblem {
  uint32_t input = 0; ///< A: rows in row-major order
  tn::Dims rowDims;
  mlir::AffineExpr rowCount;                ///< which may vary
  int64_t rows = 0, columns = 0, depth = 0; ///< rows at most
  /// B: eight neighbours of the depth lie side by side; the distances (in elements) from a column
  /// to the next, and from a panel to the next.
  uint32_t weights = 0;
  mlir::Type element;
  int64_t columnStride = 0, panelStride = 0;
  bool isPacked = false; ///< as [depth / 32][columns][32]; else as [columns][depth]
  /// Sums that make one element of the result: they lie columns / parts apart.
  int64_t parts = 1;
  std::optional<GemvNorm> norm;
  /// Whether the parts of warps must be those of a sliced product (SlicedGemm.cpp).
  bool isInvariant = false;

  int64_t panels() const { return (depth + kGemvPanel - 1) / kGemvPanel; }
  int64_t tiles() const { return (columns + 15) / 16; }
  int64_t partColumns() const { return columns / parts; }
};

/// A block goes from tile to tile of 16 columns, its warps lie side by side along the depth: in
/// each chunk, or, in an invariant model, each with all its chunks.
struct GemvLayout {
  int64_t warps = 8;
  int64_t panels = 8; ///< that a warp has under way
  int64_t chunks = 1; ///< times that, all warps together, until the depth is through
  int64_t blocks = 1;
  int64_t blocksPerSm = 1; ///< that a processor's registers must hold

  unsigned threads() const { return static_cast<unsigned>(warps * kWarp); }
};

template <typename Visitor> void visitParameters(Visitor &visit, GemvLayout &layout) {
  visit("warps", layout.warps);
  visit("panels", layout.panels);
  visit("chunks", layout.chunks);
  visit("blocks", layout.blocks);
  visit("blocks_per_sm", layout.blocksPerSm);
}

/// The problem of a region that this kernel can do.
MatchResult<GemvProblem> matchGemv(RegionBuilder &region);
/// The layout that keeps the memory busiest.
GemvLayout chooseGemvLayout(const GemvProblem &problem, const target::Target &gpu);
/// One kernel. False after a diagnostic.
bool emitGemv(RegionBuilder &region, const GemvProblem &problem, const GemvLayout &layout);

} // namespace tenon::codegen::cuda
