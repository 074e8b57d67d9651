// The three families of attention. Relies on the kernels saying what they fit.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/attention/AttentionCost.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

MatchResult<AttentionProblem> matchTensorCores(RegionBuilder &region, bool mayEncode = false) {
  MatchResult<AttentionProblem> problem = matchAttention(region.source, mayEncode);
  return problem && !fitsTensorCores(*problem)
             ? MatchFailure{"tensor cores need f16 or bf16 and heads in rows on borders of 16 "
                            "bytes"}
             : problem;
}

struct StreamProblem {
  AttentionProblem attention;
  StreamLayout layout;
};

FamilyMatch matchStream(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchTensorCores(region, /*mayEncode=*/true);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  std::optional<StreamLayout> layout = streamLayout(*problem, region.gpu);
  if (!layout) {
    return FamilyMatch::refuse(
        "only queries and keys that are known, heads of 64, no causal mask and none with rows of "
        "its own go through a ring of tiles, on an architecture with warpgroups");
  }
  if (!isFasterStreamed(*layout, region.gpu)) {
    return FamilyMatch::refuse("there are too few heads for each processor to do whole ones");
  }
  return FamilyMatch::take(StreamProblem{*problem, *layout},
                           dispatch::choiceOf(kAttentionStream.name, *layout),
                           "so many heads that each processor does whole ones");
}

double streamSeconds(RegionBuilder &region, const StreamProblem &problem,
                     const dispatch::KernelChoice &choice) {
  return costOf(problem.attention, configOf(choice, problem.layout), region.gpu);
}

dispatch::TimeParts streamParts(RegionBuilder &region, const StreamProblem &problem,
                                const dispatch::KernelChoice &choice) {
  return timeOf(problem.attention, configOf(choice, problem.layout), region.gpu);
}

LogicalResult emitStream(RegionBuilder &region, const StreamProblem &problem,
                         const dispatch::KernelChoice &choice) {
  emitStreamAttention(region, problem.attention, configOf(choice, problem.layout));
  return success();
}

FamilyMatch matchFlash(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchTensorCores(region);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  return FamilyMatch::take(
      *problem, dispatch::choiceOf(kAttentionFlash.name, chooseTile(*problem, region.gpu)),
      "online softmax on tensor cores");
}

std::vector<dispatch::KernelChoice> flashConfigs(RegionBuilder &region,
                                                 const AttentionProblem &problem) {
  std::vector<dispatch::KernelChoice> choices;
  for (const AttentionTile &tile : tilesOf(problem, region.gpu)) {
    choices.push_back(dispatch::choiceOf(kAttentionFlash.name, tile));
  }
  return choices;
}

double flashSeconds(RegionBuilder &region, const AttentionProblem &problem,
                    const dispatch::KernelChoice &choice) {
  return costOf(problem, configOf<AttentionTile>(choice), region.gpu);
}

dispatch::TimeParts flashParts(RegionBuilder &region, const AttentionProblem &problem,
                               const dispatch::KernelChoice &choice) {
  return timeOf(problem, configOf<AttentionTile>(choice), region.gpu);
}

LogicalResult emitFlash(RegionBuilder &region, const AttentionProblem &problem,
                        const dispatch::KernelChoice &choice) {
  emitTensorCoreAttention(region, problem, configOf<AttentionTile>(choice));
  return success();
}

FamilyMatch matchSimtAttention(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchAttention(region.source);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  std::optional<SimtTile> tile = simtTile(*problem, region.gpu);
  if (!tile) {
    return FamilyMatch::refuse("head sizes vary, are beyond 256, or do not fit shared memory");
  }
  return FamilyMatch::take(*problem, dispatch::choiceOf(kAttentionSimt.name, *tile),
                           "online softmax by FP32 arithmetic");
}

double simtSeconds(RegionBuilder &region, const AttentionProblem &problem,
                   const dispatch::KernelChoice &choice) {
  return costOf(problem, configOf<SimtTile>(choice), region.gpu);
}

dispatch::TimeParts simtParts(RegionBuilder &region, const AttentionProblem &problem,
                              const dispatch::KernelChoice &choice) {
  return timeOf(problem, configOf<SimtTile>(choice), region.gpu);
}

LogicalResult emitSimt(RegionBuilder &region, const AttentionProblem &problem,
                       const dispatch::KernelChoice &choice) {
  emitSimtAttention(region, problem, configOf<SimtTile>(choice));
  return success();
}

} // namespace

constexpr KernelFamily kAttentionStream = {.name = "attention_stream",
                                           .what = "persistent attention by warpgroups (wgmma): a "
                                                   "producer warp, a ring of K and V tiles, three "
                                                   "consumer warpgroups that share them",
                                           .strategies = {dispatch::kAttention},
                                           .match = matchStream,
                                           .configs = nullptr,
                                           .seconds = on<streamSeconds>,
                                           .parts = on<streamParts>,
                                           .emit = on<emitStream>};

constexpr KernelFamily kAttentionFlash = {.name = "attention_flash",
                                          .what = "flash attention by mma.sync or warpgroups; few "
                                                  "queries split the keys over a cluster or two "
                                                  "kernels (flash decoding)",
                                          .strategies = {dispatch::kAttention},
                                          .match = matchFlash,
                                          .configs = on<flashConfigs>,
                                          .seconds = on<flashSeconds>,
                                          .parts = on<flashParts>,
                                          .emit = on<emitFlash>};

constexpr KernelFamily kAttentionSimt = {.name = "attention_simt",
                                         .what = "flash attention by FP32 arithmetic",
                                         .strategies = {dispatch::kAttention},
                                         .match = matchSimtAttention,
                                         .configs = nullptr,
                                         .seconds = on<simtSeconds>,
                                         .parts = on<simtParts>,
                                         .emit = on<emitSimt>};

} // namespace tenon::codegen::cuda
