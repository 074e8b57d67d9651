// The three families of attention. Relies on the kernels saying what they fit.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/attention/AttentionCost.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

MatchResult<AttentionProblem> matchTensorCores(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchAttention(region.source);
  return problem && !fitsTensorCores(*problem)
             ? MatchFailure{"tensor cores need f16 or bf16 and heads in rows on borders of 16 "
                            "bytes"}
             : problem;
}

struct StreamFit {
  AttentionProblem problem;
  StreamLayout layout;
};

MatchResult<StreamFit> matchStream(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchTensorCores(region);
  if (!problem) {
    return MatchFailure{problem.why()};
  }
  std::optional<StreamLayout> layout = streamLayout(*problem, region.gpu);
  if (!layout) {
    return MatchFailure{
        "only sizes that are known, heads of 64, no causal mask and none with rows of its "
        "own go through a ring of tiles, on an architecture with warpgroups"};
  }
  return StreamFit{*problem, *layout};
}

Offer offerStream(RegionBuilder &region) {
  MatchResult<StreamFit> fit = matchStream(region);
  if (!fit) {
    return Offer::refuse(fit.why());
  }
  if (!isFasterStreamed(fit->layout, region.gpu)) {
    return Offer::refuse("there are too few heads for each processor to do whole ones");
  }
  return {dispatch::choiceOf(kAttentionStream.name, fit->layout),
          "so many heads that each processor does whole ones"};
}

double streamCost(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  MatchResult<StreamFit> fit = matchStream(region);
  return fit && succeeded(readChoice(region, choice, fit->layout))
             ? costOf(fit->problem, fit->layout, region.gpu)
             : 0;
}

LogicalResult emitStream(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  MatchResult<StreamFit> fit = matchStream(region);
  if (!fit || failed(readChoice(region, choice, fit->layout))) {
    return failure();
  }
  emitStreamAttention(*region.kernels, region.symbol, fit->problem, fit->layout, region.code);
  return success();
}

Offer offerFlash(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchTensorCores(region);
  return problem ? Offer{dispatch::choiceOf(kAttentionFlash.name, chooseTile(*problem, region.gpu)),
                         "online softmax on tensor cores"}
                 : Offer::refuse(problem.why());
}

std::vector<dispatch::KernelChoice> flashConfigs(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchTensorCores(region);
  std::vector<dispatch::KernelChoice> choices;
  for (const AttentionTile &tile :
       problem ? tilesOf(*problem, region.gpu) : std::vector<AttentionTile>()) {
    choices.push_back(dispatch::choiceOf(kAttentionFlash.name, tile));
  }
  return choices;
}

double flashCost(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  MatchResult<AttentionProblem> problem = matchTensorCores(region);
  AttentionTile tile;
  return problem && succeeded(readChoice(region, choice, tile)) ? costOf(*problem, tile, region.gpu)
                                                                : 0;
}

LogicalResult emitFlash(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  MatchResult<AttentionProblem> problem = matchTensorCores(region);
  AttentionTile tile;
  if (!problem || failed(readChoice(region, choice, tile))) {
    return failure();
  }
  emitTensorCoreAttention(*region.kernels, region.symbol, *problem, tile, region.gpu, region.code);
  return success();
}

Offer offerSimt(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchAttention(region.source);
  if (!problem) {
    return Offer::refuse(problem.why());
  }
  std::optional<SimtTile> tile = plainTile(*problem, region.gpu);
  return tile ? Offer{dispatch::choiceOf(kAttentionSimt.name, *tile),
                      "online softmax by FP32 arithmetic"}
              : Offer::refuse("head sizes vary, are beyond 256, or do not fit shared memory");
}

double simtCost(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  MatchResult<AttentionProblem> problem = matchAttention(region.source);
  SimtTile tile;
  return problem && succeeded(readChoice(region, choice, tile)) ? costOf(*problem, tile, region.gpu)
                                                                : 0;
}

LogicalResult emitSimt(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  MatchResult<AttentionProblem> problem = matchAttention(region.source);
  SimtTile tile;
  if (!problem || failed(readChoice(region, choice, tile))) {
    return failure();
  }
  emitSimtAttention(*region.kernels, region.symbol, *problem, tile, region.gpu, region.code);
  return success();
}

} // namespace

constexpr KernelFamily kAttentionStream = {.name = "attention_stream",
                                           .what = "persistent attention by warpgroups (wgmma): a "
                                                   "producer warp, a ring of K and V tiles, three "
                                                   "consumer warpgroups that share them",
                                           .strategies = {dispatch::kAttention},
                                           .match = offerStream,
                                           .configs = nullptr,
                                           .cost = streamCost,
                                           .emit = emitStream};

constexpr KernelFamily kAttentionFlash = {.name = "attention_flash",
                                          .what = "flash attention by mma.sync or warpgroups; few "
                                                  "queries split the keys over a cluster or two "
                                                  "kernels (flash decoding)",
                                          .strategies = {dispatch::kAttention},
                                          .match = offerFlash,
                                          .configs = flashConfigs,
                                          .cost = flashCost,
                                          .emit = emitFlash};

constexpr KernelFamily kAttentionSimt = {.name = "attention_simt",
                                         .what = "flash attention by FP32 arithmetic",
                                         .strategies = {dispatch::kAttention},
                                         .match = offerSimt,
                                         .configs = nullptr,
                                         .cost = simtCost,
                                         .emit = emitSimt};

} // namespace tenon::codegen::cuda
