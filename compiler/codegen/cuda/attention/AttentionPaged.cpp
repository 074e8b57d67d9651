// Attention over pages as a family: kernels of the flash form for steps of few tokens, most of
// which are the only ones of their sequences, and of many. base/StepRange.h leaves out those whose
// tokens are others.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/attention/AttentionCost.h"
#include "compiler/codegen/cuda/attention/AttentionPages.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/StepRange.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

struct TokenBucket {
  SizeRange tokens;
  std::optional<AttentionTile> tile; ///< none: FP32 arithmetic
};

struct PagedForms {
  AttentionProblem problem;
  SizeRange all; ///< tokens that the symbols allow
  SmallVector<TokenBucket> buckets;
  SimtTile simt;
};

/// The same with sizes that are known, by which tiles are chosen and predicted.
AttentionProblem withTokens(AttentionProblem problem, int64_t tokens, int64_t keys) {
  MLIRContext *context = problem.queries.getContext();
  problem.queries = getAffineConstantExpr(tokens, context);
  problem.keys = getAffineConstantExpr(keys, context);
  return problem;
}

/// Keys that have sums of their own.
int64_t partKeysOf(const AttentionTile &tile) {
  return tile.isParts ? tile.keys / tile.keyWarps : tile.keys;
}

/// Parts of keys that hold whole pages, or parts of one.
bool fitsPages(const AttentionTile &tile, int64_t page) {
  int64_t keys = partKeysOf(tile);
  return keys % page == 0 || page % keys == 0;
}

FamilyMatch matchPaged(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchPagedAttention(region.source);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  tn::SymbolList symbols(region.source->getParentOfType<ModuleOp>());
  tn::SymbolList::Range tokens = symbols.bounds(problem->queries);
  int64_t keys = symbols.bounds(problem->keys).max;
  PagedForms forms{*problem, {tokens.min, tokens.max}, {}, {}};
  if (!fitsTensorCores(*problem)) {
    std::optional<SimtTile> simt = simtTile(*problem, region.gpu);
    if (!simt) {
      return FamilyMatch::refuse("head sizes vary, are beyond 256, or do not fit shared memory");
    }
    forms.simt = *simt;
    forms.buckets.push_back({forms.all, std::nullopt});
    return FamilyMatch::take(forms, {kAttentionPaged.name.str(), {}}, "by FP32 arithmetic");
  }
  int64_t next = 1;
  auto add = [&](int64_t most, const AttentionTile &tile) {
    int64_t least = std::max(next, tokens.min);
    next = std::max(next, most + 1);
    if (least <= std::min(most, tokens.max)) {
      forms.buckets.push_back({{least, std::min(most, tokens.max)}, tile});
    }
  };
  AttentionProblem sized = withTokens(*problem, tokens.max, keys);
  add(tuning::kPagedSplitHeads / *tn::constantDim(problem->keyHeads),
      fewTokensTile(sized, tuning::kPagedSplits, region.gpu));
  add(tuning::kPagedFewTokens, fewTokensTile(sized, 1, region.gpu));
  add(tuning::kPagedManyTokens - 1, manyTokensTile(sized, tuning::kPagedFewTokens, region.gpu));
  add(std::max(tokens.max, tuning::kPagedManyTokens),
      manyTokensTile(sized, tuning::kPagedManyTokens, region.gpu));
  for (const TokenBucket &bucket : forms.buckets) {
    if (!fitsPages(*bucket.tile, problem->sequences->page)) {
      return FamilyMatch::refuse("parts of keys do not hold whole pages");
    }
  }
  return FamilyMatch::take(forms, {kAttentionPaged.name.str(), {}},
                           "few tokens and many have kernels of their own");
}

double pagedSeconds(RegionBuilder &region, const PagedForms &forms,
                    const dispatch::KernelChoice &) {
  int64_t tokens = std::clamp<int64_t>(region.estimate(forms.problem.queries), 1, forms.all.most);
  AttentionProblem sized = withTokens(forms.problem, tokens, region.estimate(forms.problem.keys));
  const TokenBucket *bucket = llvm::find_if(
      forms.buckets, [&](const TokenBucket &each) { return tokens <= each.tokens.most; });
  return bucket->tile ? costOf(sized, *bucket->tile, region.gpu)
                      : costOf(sized, forms.simt, region.gpu);
}

/// A part's sums are its own, by one chain of products however it is shared and whether they are
/// mma or wgmma (equal bits: compared on an H200, docs/measurements), and all kernels add parts by
/// one formula. The FP32 kernel has tiles instead.
std::string pagedFormsOrder(RegionBuilder &, const PagedForms &forms,
                            const dispatch::KernelChoice &) {
  const std::optional<AttentionTile> &tile = forms.buckets.front().tile;
  if (!tile) {
    return "tiles of keys from position 0 on";
  }
  int64_t keys = partKeysOf(*tile);
  bool isOne = llvm::all_of(
      forms.buckets, [&](const TokenBucket &bucket) { return partKeysOf(*bucket.tile) == keys; });
  return isOne
             ? "parts of " + std::to_string(keys) + " keys from position 0 on, added in their order"
             : "";
}

LogicalResult emitPagedForms(RegionBuilder &region, const PagedForms &forms,
                             const dispatch::KernelChoice &) {
  for (const TokenBucket &bucket : forms.buckets) {
    size_t first = region.code.steps.size();
    if (bucket.tile) {
      emitTensorCoreAttention(region, forms.problem, *bucket.tile);
    } else {
      emitSimtAttention(region, forms.problem, forms.simt);
    }
    limitSteps(MutableArrayRef(region.code.steps).drop_front(first), forms.problem.queries,
               forms.all, bucket.tokens);
  }
  return success();
}

} // namespace

constexpr KernelFamily kAttentionPaged = {
    .name = "attention_paged",
    .what = "attention over pages: the flash form, for few tokens and for many",
    .strategies = {dispatch::kAttention},
    .needs = {"paged_attention"},
    .match = matchPaged,
    .configs = nullptr,
    .seconds = on<pagedSeconds>,
    .emit = on<emitPagedForms>,
    .order = on<pagedFormsOrder>};

} // namespace tenon::codegen::cuda
