// Products of more rows than gemv takes whose sums are gemv's bit by bit, for invariant models: the
// frame of gemm_tensorcore with the fragments, chains and slices of gemv. Relies on TiledGemmKernel
// for both, and on weights that lie as [columns, depth].
#include "compiler/codegen/cuda/gemm/SlicedGemm.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/HalfGemm.h"
#include "compiler/codegen/cuda/gemm/TiledGemm.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Invariance.h"

using namespace mlir;

namespace tenon::codegen::cuda {

int64_t sliceDepth(int64_t depth) {
  int64_t line = GemmTile().depth;
  return llvm::divideCeilSigned(llvm::divideCeilSigned(depth, line), kSlices) * line;
}

std::string slicedOrder(int64_t depth) {
  return (llvm::Twine("mma.sync, ") + llvm::Twine(kSlices) + " slices of " +
          llvm::Twine(sliceDepth(depth)) + ", in each even and odd panels of 32")
      .str();
}

std::string slicedNormOrder() {
  return "squares of a row by " + std::to_string(kSlices) + " warps";
}

std::string behind(const std::string &order, const std::string &before) {
  return before.empty() ? order : order + "; behind " + before;
}

namespace {

/// Tiles whose sums, of two panels and of the slices before, fit a warp's registers.
std::vector<dispatch::KernelChoice> slicedConfigs(RegionBuilder &region, const GemmProblem &) {
  std::vector<dispatch::KernelChoice> choices;
  for (int64_t rows : tuning::kTileRows) {
    for (int64_t columns : tuning::kTileWidths) {
      for (int64_t splits : {int64_t(1), kSlices}) {
        GemmTile tile = mmaTile(rows, columns, GemmTile().depth);
        tile.splits = splits;
        tile.slices = kSlices;
        int64_t bytes =
            tile.stages * (tile.rows + tile.columns) * (tile.depth + kRowPadding * 2) * 2;
        bool fits = bytes + tuning::kBesideStages <= region.gpu.sharedBytes &&
                    splits <= region.gpu.clusterBlocks;
        if (rows * columns <= tuning::kManyWarpsTile && fits) {
          choices.push_back(dispatch::choiceOf(kGemmSliced.name, tile));
        }
      }
    }
  }
  return choices;
}

GemmTile tileOf(const dispatch::KernelChoice &choice) {
  GemmTile tile = configOf<GemmTile>(choice);
  tile.slices = kSlices;
  return tile;
}

double slicedSeconds(RegionBuilder &region, const GemmProblem &problem,
                     const dispatch::KernelChoice &choice) {
  return estimateMma(problem, sizesOf(region, problem), tileOf(choice), region.gpu).seconds();
}

dispatch::TimeParts slicedParts(RegionBuilder &region, const GemmProblem &problem,
                                const dispatch::KernelChoice &choice) {
  return estimateMma(problem, sizesOf(region, problem), tileOf(choice), region.gpu)
      .parts(region.gpu);
}

dispatch::KernelChoice fastestConfig(RegionBuilder &region, const GemmProblem &problem) {
  std::vector<dispatch::KernelChoice> choices = slicedConfigs(region, problem);
  return *std::min_element(choices.begin(), choices.end(), [&](const auto &a, const auto &b) {
    return slicedSeconds(region, problem, a) < slicedSeconds(region, problem, b);
  });
}

FamilyMatch matchSliced(RegionBuilder &region) {
  auto ops = region.source.getOps<tn::MatmulOp>();
  if (!tn::isInvariant(region.source) || !llvm::hasSingleElement(ops) ||
      !halfGemmOf(*ops.begin())) {
    return FamilyMatch::refuse("only products of f16 or bf16 by a matrix need gemv's order of "
                               "sums, with --invariant");
  }
  MatchResult<GemmProblem> problem = matchGemm(region.source);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  if (!productTensors(region) || copyWidth(*problem, /*isA=*/true) < 8 ||
      copyWidth(*problem, /*isA=*/false) < 8 || tn::constantDim(problem->a.columnStride()) != 1 ||
      tn::constantDim(problem->b.rowStride()) != 1) {
    return FamilyMatch::refuse("lines of both operands are no whole 16 bytes along the depth");
  }
  return FamilyMatch::take(*problem, fastestConfig(region, *problem),
                           "adds up as gemv does, for more rows");
}

std::string slicedOrderOf(RegionBuilder &, const GemmProblem &problem,
                          const dispatch::KernelChoice &) {
  return slicedOrder(*tn::constantDim(problem.depth));
}

LogicalResult emitSliced(RegionBuilder &region, const GemmProblem &problem,
                         const dispatch::KernelChoice &choice) {
  return success(emitProduct(region, problem, tileOf(choice)));
}

} // namespace

constexpr KernelFamily kGemmSliced = {
    .name = "gemm_sliced",
    .what = "gemm_tensorcore with the sums of gemv, for more rows of an invariant model",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchSliced,
    .configs = on<slicedConfigs>,
    .seconds = on<slicedSeconds>,
    .parts = on<slicedParts>,
    .epilogueSeconds = epilogueSeconds,
    .emit = on<emitSliced>,
    .order = on<slicedOrderOf>};

} // namespace tenon::codegen::cuda
