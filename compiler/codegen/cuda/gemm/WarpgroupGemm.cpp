// Products of bytes by warpgroups, in the frame of the others (TiledGemm.cpp). Relies on copies of
// 16 bytes, which keep the swizzle of those products.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/gemm/TileLoader.h"
#include "compiler/codegen/cuda/gemm/WarpgroupTiles.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

bool isDepthInner(const GemmProblem &problem) {
  return tn::constantDim(problem.a.columnStride()) == 1 &&
         tn::constantDim(problem.b.rowStride()) == 1;
}

FamilyMatch matchWarpgroupGemm(RegionBuilder &region) {
  if (!region.gpu.has(target::Feature::WarpgroupMma)) {
    return FamilyMatch::refuse("the target has no products of warpgroups");
  }
  MatchResult<GemmProblem> problem = matchGemm(region.source);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  bool isWhole = isDepthInner(*problem) && copyWidth(*problem, /*isA=*/true) == 8 &&
                 copyWidth(*problem, /*isA=*/false) == 8 &&
                 problem->columns.isMultipleOf(kLaneStrip);
  if (!problem->a.at.element.isInteger(16) || !isWhole || !productTensors(region)) {
    return FamilyMatch::refuse(
        "the operands are not bytes, 16 and more along the depth, by columns in eights");
  }
  return FamilyMatch::take(
      *problem,
      dispatch::choiceOf(kGemmWarpgroup.name,
                         chooseWarpgroupTile(sizesOf(region, *problem), region.gpu)),
      "warpgroups multiply bytes");
}

std::vector<dispatch::KernelChoice> warpgroupConfigs(RegionBuilder &region,
                                                     const GemmProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (const GemmTile &tile : warpgroupTiles(sizesOf(region, problem).columns, region.gpu)) {
    choices.push_back(dispatch::choiceOf(kGemmWarpgroup.name, tile));
  }
  return choices;
}

dispatch::TimeParts warpgroupParts(RegionBuilder &region, const GemmProblem &problem,
                                   const dispatch::KernelChoice &choice) {
  return estimateWarpgroup(sizesOf(region, problem), warpgroupTileOf(choice), region.gpu);
}

double warpgroupSeconds(RegionBuilder &region, const GemmProblem &problem,
                        const dispatch::KernelChoice &choice) {
  return warpgroupParts(region, problem, choice).microseconds() * 1e-6;
}

LogicalResult emitWarpgroup(RegionBuilder &region, const GemmProblem &problem,
                            const dispatch::KernelChoice &choice) {
  return success(emitProduct(region, problem, warpgroupTileOf(choice)));
}

} // namespace

constexpr KernelFamily kGemmWarpgroup = {
    .name = "gemm_warpgroup",
    .what = "tiled GEMM of bytes by warpgroups (wgmma): cp.async into swizzled tiles, blocks that "
            "go from tile to tile",
    .strategies = {dispatch::kContraction},
    .needs = {"matmul"},
    .match = matchWarpgroupGemm,
    .configs = on<warpgroupConfigs>,
    .seconds = on<warpgroupSeconds>,
    .parts = on<warpgroupParts>,
    .epilogueSeconds = epilogueSeconds,
    .emit = on<emitWarpgroup>};

} // namespace tenon::codegen::cuda
