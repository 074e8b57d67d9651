// Convolutions of bytes by products of warpgroups, in the frame of the others (Conv.cpp). Relies on
// copies of 16 bytes, which keep the swizzle of those products.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/conv/Conv.h"
#include "compiler/codegen/cuda/gemm/WarpgroupTiles.h"
#include "compiler/codegen/cuda/library/LibraryMatch.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

FamilyMatch matchWarpgroup(RegionBuilder &region) {
  if (!region.gpu.has(target::Feature::WarpgroupMma)) {
    return FamilyMatch::refuse("the target has no products of warpgroups");
  }
  MatchResult<ConvProblem> problem = matchConv(region, /*isHalf=*/true);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  bool isWhole = problem->patchWidth == 8 && problem->filterWidth == 8 &&
                 problem->product.columns.isMultipleOf(kLaneStrip);
  if (!problem->element().isInteger() || !isWhole) {
    return FamilyMatch::refuse(
        "the operands are not bytes, 16 and more along the channels, by columns in eights");
  }
  GemmSizes sizes =
      convSizes(region, *problem, [&](ArrayRef<AffineExpr> dims) { return region.estimate(dims); });
  return FamilyMatch::take(
      *problem, dispatch::choiceOf(kConvWarpgroup.name, chooseWarpgroupTile(sizes, region.gpu)),
      "warpgroups multiply patches by the filter");
}

std::vector<dispatch::KernelChoice> configs(RegionBuilder &region, const ConvProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (const GemmTile &tile :
       warpgroupTiles(*tn::constantDim(problem.product.columns), region.gpu)) {
    choices.push_back(dispatch::choiceOf(kConvWarpgroup.name, tile));
  }
  return choices;
}

/// With the guess of sizes that vary by which the other families are judged.
dispatch::TimeParts parts(RegionBuilder &region, const ConvProblem &problem,
                          const dispatch::KernelChoice &choice) {
  dispatch::CostModel costs(region.source->getParentOfType<ModuleOp>(), region.gpu);
  GemmSizes sizes =
      convSizes(region, problem, [&](ArrayRef<AffineExpr> dims) { return costs.countOf(dims); });
  return estimateWarpgroup(sizes, warpgroupTileOf(choice), region.gpu);
}

double seconds(RegionBuilder &region, const ConvProblem &problem,
               const dispatch::KernelChoice &choice) {
  return parts(region, problem, choice).microseconds() * 1e-6;
}

std::optional<dispatch::WeightLayout> weights(RegionBuilder &region, const ConvProblem &) {
  return channelsLastWeight(region.source);
}

LogicalResult emit(RegionBuilder &region, const ConvProblem &problem,
                   const dispatch::KernelChoice &choice) {
  return success(emitConv(region, problem, warpgroupTileOf(choice)));
}

} // namespace

constexpr KernelFamily kConvWarpgroup = {
    .name = "conv_warpgroup",
    .what = "implicit GEMM of a convolution of bytes by warpgroups (wgmma): cp.async of patches "
            "into swizzled tiles, blocks that go from tile to tile",
    .strategies = {dispatch::kContraction},
    .needs = {"conv"},
    .match = matchWarpgroup,
    .configs = on<configs>,
    .seconds = on<seconds>,
    .parts = on<parts>,
    .epilogueSeconds = epilogueSeconds,
    .weights = on<weights>,
    .emit = on<emit>};

} // namespace tenon::codegen::cuda
