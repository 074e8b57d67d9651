// Matrix products as generated kernels, with whatever elementwise ops follow, where no library
// serves a region. Relies on GemmMatch.h for the operands.
#pragma once

#include "compiler/codegen/cuda/gemm/TiledGemmKernel.h"

namespace tenon::codegen::cuda {

/// What the estimate of a staged product's time asks for.
struct GemmSizes {
  int64_t rows, columns, depth, batch;
  double memoryBytes;       ///< that come from memory and go there, all in all
  int64_t elementBytes = 2; ///< of the operands
  double copySeconds = 0;   ///< of a stage at least, to start its copies
};
/// Those of a region's product.
GemmSizes sizesOf(RegionBuilder &region, const GemmProblem &problem);
/// A tile for tensor cores, with warps and stages as they suit it.
GemmTile mmaTile(int64_t rows, int64_t columns, int64_t depth);
/// What a staged product is estimated to take: waves of blocks, each through its slice of the depth
/// stage by stage, then its tile's way out; or what all of them read.
struct StagedTime {
  double fill = 0, steps = 0, out = 0; ///< seconds, of all waves
  double stream = 0;                   ///< of what all blocks read, where that takes longer
  double reduction = 0;                ///< of blocks that share a depth
  double blocks = 0, waves = 0, stepsOfBlock = 0;
  const char *step = ""; ///< the part that a step's time is
  const char *read = ""; ///< likewise of the stream

  double seconds() const;
  dispatch::TimeParts parts(const target::Target &gpu) const;
};
/// `coreFlops` is what one multiprocessor does a second.
StagedTime estimateStaged(const GemmSizes &sizes, const GemmTile &tile, double coreFlops,
                          const target::Target &gpu);
/// What a multiprocessor reaches by mma.sync.
double mmaCoreFlops(const target::Target &gpu);

/// A kernel on tensor cores.
StagedTime estimateMma(const GemmProblem &problem, GemmSizes sizes, const GemmTile &tile,
                       const target::Target &gpu);

/// Whether tensor cores can do a problem: both operands f16 or bf16.
bool fitsTensorCores(const GemmProblem &problem);
/// The tile that is estimated to be the fastest.
GemmTile chooseTile(RegionBuilder &region, const GemmProblem &problem);
/// One kernel. False after a diagnostic.
bool emitProduct(RegionBuilder &region, const GemmProblem &problem, const GemmTile &tile);

} // namespace tenon::codegen::cuda
