// Attention whose number of queries varies, by kernels for ranges of it: a step of decoding, which
// shares the keys of its only query among blocks, a few queries, and many, whose blocks are larger
// the more of them there are. All are launched;
// base/StepRange.h leaves out those whose queries are others.
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/attention/AttentionCost.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/StepRange.h"
#include "compiler/dispatch/Strategy.h"

#include <algorithm>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

struct QueryBucket {
  SizeRange queries;
  AttentionTile tile;
};

struct QueryBuckets {
  AttentionProblem problem;
  SizeRange all; ///< queries that the symbols allow
  SmallVector<QueryBucket> buckets;
};

/// Queries up to which blocks share keys.
struct QueryLimits {
  int64_t few = 0;
};

template <typename Visitor> void visitParameters(Visitor &visit, QueryLimits &limits) {
  visit("few", limits.few);
}

/// The same with sizes that are known, by which tiles are chosen and predicted.
AttentionProblem sized(AttentionProblem problem, int64_t queries, int64_t keys) {
  MLIRContext *context = problem.queries.getContext();
  problem.queries = getAffineConstantExpr(queries, context);
  problem.keys = getAffineConstantExpr(keys, context);
  return problem;
}

/// A bucket's problem as its kernel is compiled for: one query is known to be one, so that a mask's
/// row is that of all heads.
AttentionProblem problemOf(const QueryBuckets &all, const QueryBucket &bucket) {
  AttentionProblem problem = all.problem;
  if (bucket.queries.most == 1) {
    problem.queries = getAffineConstantExpr(1, problem.queries.getContext());
  }
  return problem;
}

/// The fewest queries, more than `least`, from which on blocks have as many rows, which divide what
/// is returned less one; more than `most` if there are none.
int64_t queriesOfRows(const AttentionProblem &problem, int64_t rows, int64_t least, int64_t most,
                      int64_t keys, const target::Target &gpu) {
  int64_t queries = llvm::alignTo(std::max<int64_t>(least, 1), rows);
  while (queries < most + rows && chooseTile(sized(problem, queries, keys), gpu).rows() < rows) {
    queries += rows;
  }
  return std::max(least, queries - rows + 1);
}

FamilyMatch matchQueryBuckets(RegionBuilder &region) {
  MatchResult<AttentionProblem> problem = matchAttention(region.source);
  if (!problem) {
    return FamilyMatch::refuse(problem.why());
  }
  tn::SymbolList symbols(region.source->getParentOfType<ModuleOp>());
  tn::SymbolList::Range queries = symbols.bounds(problem->queries),
                        keys = symbols.bounds(problem->keys);
  bool isVarying = !tn::constantDim(problem->queries) && queries.min <= 1 &&
                   queries.max > tuning::kDecodeQueries && tn::constantDim(problem->heads);
  if (!isVarying || !fitsTensorCores(*problem)) {
    return FamilyMatch::refuse("only f16 or bf16 with queries that vary between one and more than "
                               "a step of decoding has are worth kernels for each");
  }
  QueryBuckets all{*problem, {queries.min, queries.max}, {}};
  auto add = [&](int64_t least, int64_t most, int64_t typical) {
    AttentionProblem typicalProblem = sized(all.problem, typical, keys.max);
    all.buckets.push_back({{least, most}, chooseTile(typicalProblem, region.gpu)});
  };
  add(1, 1, 1);
  add(2, tuning::kDecodeQueries, tuning::kDecodeQueries);
  int64_t next = tuning::kDecodeQueries + 1, guess = region.estimate(problem->queries);
  for (int64_t rows : tuning::kManyQueriesRows) {
    int64_t first = queriesOfRows(*problem, rows, next, queries.max, keys.max, region.gpu);
    if (first > next && first <= queries.max) {
      add(next, first - 1, std::clamp(guess, next, first - 1));
      next = first;
    }
  }
  add(next, queries.max, std::clamp(guess, next, queries.max));
  return FamilyMatch::take(
      std::move(all),
      dispatch::choiceOf(kAttentionBuckets.name, QueryLimits{tuning::kDecodeQueries}),
      "one query, a few and many have kernels of their own");
}

double queryBucketsSeconds(RegionBuilder &region, const QueryBuckets &all,
                           const dispatch::KernelChoice &) {
  int64_t queries = std::clamp<int64_t>(region.estimate(all.problem.queries), 1, all.all.most);
  const QueryBucket *bucket = llvm::find_if(
      all.buckets, [&](const QueryBucket &each) { return queries <= each.queries.most; });
  return costOf(sized(all.problem, queries, region.estimate(all.problem.keys)), bucket->tile,
                region.gpu);
}

LogicalResult emitQueryBuckets(RegionBuilder &region, const QueryBuckets &all,
                               const dispatch::KernelChoice &) {
  for (const QueryBucket &bucket : all.buckets) {
    AttentionProblem problem = problemOf(all, bucket);
    problem.firstTemporary += region.code.temporaries.size();
    size_t first = region.code.steps.size();
    emitTensorCoreAttention(region, problem, bucket.tile);
    limitSteps(MutableArrayRef(region.code.steps).drop_front(first), all.problem.queries, all.all,
               bucket.queries);
  }
  return success();
}

} // namespace

constexpr KernelFamily kAttentionBuckets = {
    .name = "attention_buckets",
    .what = "attention_flash for each range of a number of queries that varies",
    .strategies = {dispatch::kAttention},
    .match = matchQueryBuckets,
    .configs = nullptr,
    .seconds = on<queryBucketsSeconds>,
    .emit = on<emitQueryBuckets>};

} // namespace tenon::codegen::cuda
