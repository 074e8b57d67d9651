// How one wave of blocks shares out a product by a constant matrix, whose weights are on their way
// before the rows are there: the configurations of gemm_skinny.
#pragma once

#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/target/Target.h"

namespace tenon::codegen::cuda {

/// Rows of a block's tile of the result are a multiple of these; the depth of a stage of its
/// operands.
inline constexpr int64_t kSmallRows = 64, kSmallDepth = 64;

/// Rows and columns of a block's tile, and how many blocks share its depth; the stages of a block's
/// ring, and for how many such blocks a multiprocessor has room (`fitStages`).
struct SkinnyLayout {
  int64_t rows = 0, columns = 0, splitK = 1;
  int64_t stages = 0, blocksPerSm = 1;

  int64_t blocks(const HalfGemm &product) const {
    return (product.rows + rows - 1) / rows * (product.columns / columns) * splitK;
  }
  /// Of a block.
  int64_t steps(const HalfGemm &product) const { return product.depth / kSmallDepth / splitK; }
  int64_t stageBytes() const { return 2 * kSmallDepth * (rows + columns); }
  /// Floats from one row of the tile's accumulators to the next, in shared memory: an odd multiple
  /// of 8, so that eight rows meet no bank twice.
  int64_t sumsOfRow() const { return columns | 8; }
  int64_t sumBytes() const { return 4 * rows * sumsOfRow(); }
};

template <typename Visitor> void visitParameters(Visitor &visit, SkinnyLayout &layout) {
  visit("tile", layout.rows, layout.columns);
  visit("split_k", layout.splitK);
  visit("stages", layout.stages);
  visit("blocks_per_sm", layout.blocksPerSm);
}

/// Gives the ring what shared memory has room for: half of it, if there is room for `blocks` of 2
/// and that is enough to go on with.
void fitStages(const HalfGemm &product, const target::Target &gpu, SkinnyLayout &layout,
               int64_t blocks);

/// All layouts whose blocks run at once.
llvm::SmallVector<SkinnyLayout> skinnyLayoutsOf(const HalfGemm &product, const target::Target &gpu);
/// Of them the one whose blocks have the least to do; none for a
/// product that is not small.
std::optional<SkinnyLayout> skinnyLayoutOf(const HalfGemm &product, const target::Target &gpu);

/// What it is predicted to take from the end of the kernel before.
struct SkinnyTime {
  double start = 0, steps = 0, out = 0, split = 0; ///< seconds of a block
  double memory = 0;                               ///< of all bytes, where that takes longer
  bool waits = false; ///< whether a step takes the least that a stage does, not what it loads

  double seconds() const { return start + std::max(steps + out + split, memory); }
};
SkinnyTime timeOf(const HalfGemm &product, const SkinnyLayout &layout, const target::Target &gpu);
double secondsOf(const HalfGemm &product, const SkinnyLayout &layout, const target::Target &gpu);

} // namespace tenon::codegen::cuda
