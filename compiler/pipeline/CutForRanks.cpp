// `--tp` and `--pp`: the model becomes that of one rank of each stage, for all of them. Relies on
// optimized `tn` in the precision that it is computed in; what follows knows nothing of ranks but
// that some weights are each rank's own, and of stages but that values are sent between them.
#include "compiler/pipeline/Compilation.h"

#include "compiler/graph/TnShard.h"
#include "compiler/shard/CutGraph.h"
#include "compiler/shard/LikelyRuns.h"
#include "compiler/shard/Predict.h"
#include "compiler/shard/RankWeights.h"
#include "compiler/shard/RunRanks.h"
#include "compiler/shard/Stages.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// Positions before a token of which the time is predicted.
constexpr int64_t kLikelyContext = 2048;

/// What ranks of a CPU exchange stays in one memory: their cuts show what GPUs do.
constexpr double kFreeSeconds = 1e-9;

Status errorOf(const shard::RankCheck &check, int64_t ranks) {
  if (check.difference <= shard::kRankTolerance) {
    return Status::ok();
  }
  return Status::error(ErrorId::VerifyFailed,
                       strCat("the cut for ", ranks, " ranks changes '", check.output, "' by ",
                              check.difference, " of its largest element"),
                       "report this with the model");
}

/// Ranks that all compute the whole are none.
Status checkIsCut(ModuleOp cut, int64_t ranks) {
  WalkResult found = cut.walk([](Operation *op) {
    bool isOfRanks = isa<tn::RankSliceOp, tn::AllReduceOp, tn::AllGatherOp>(op);
    return isOfRanks ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted()
             ? Status::ok()
             : Status::error(
                   ErrorId::BadArgument,
                   strCat("--tp ", ranks, ": nothing is cut, since sizes do not divide by ", ranks,
                          " or each matrix is predicted to be faster whole"),
                   "'tenon explain sharding MODEL --tp 2,4' shows what other numbers cut; "
                   "--pin NODE=column cuts a matrix regardless of its time");
}

} // namespace

Status Compilation::cutForRanks() {
  uint64_t most = std::max(options.tensorParallel, options.pipelineParallel);
  if (most > engine::kMaxPlanRanks ||
      options.tensorParallel * options.pipelineParallel > engine::kMaxPlanRanks) {
    return Status::error(ErrorId::BadArgument,
                         strCat("--tp ", options.tensorParallel, " --pp ", options.pipelineParallel,
                                ": at most ", engine::kMaxPlanRanks, " ranks are possible"),
                         "name fewer");
  }
  if (options.tensorParallel > 1) {
    TENON_TRY(cutMatrices());
  }
  return options.pipelineParallel > 1 ? cutStages() : Status::ok();
}

Status Compilation::cutStages() {
  const target::Target &part = options.gpus.empty() ? options.cpu : options.gpus.front();
  shard::Graph graph(*module, weights);
  target::Collectives links(part);
  shard::Symbols sizes =
      shard::likelyRuns(*module, graph.function(), kLikelyContext).front().symbols;
  shard::Costs costs(graph, part, links, 1, /*halves=*/false, sizes);
  TENON_ASSIGN(std::vector<shard::Stage> stages,
               shard::findStages(graph, shard::wholePlan(graph), costs, links,
                                 static_cast<int64_t>(options.pipelineParallel)));
  shard::insertStages(*module, graph, stages);
  return Status::ok();
}

Status Compilation::cutMatrices() {
  int64_t ranks = static_cast<int64_t>(options.tensorParallel);
  std::vector<shard::Pin> pins;
  for (const std::string &text : options.pins) {
    TENON_ASSIGN(shard::Pin pin, shard::parsePin(text));
    pins.push_back(std::move(pin));
  }
  const target::Target &part = options.gpus.empty() ? options.cpu : options.gpus.front();
  shard::Graph graph(*module, weights);
  target::Collectives collectives(part);
  if (!part.isGpu()) {
    collectives.setShortest(kFreeSeconds);
  }
  shard::Symbols sizes =
      shard::likelyRuns(*module, graph.function(), kLikelyContext).front().symbols;
  shard::Costs costs(graph, part, collectives, ranks, /*halves=*/false, sizes);
  TENON_ASSIGN(shard::Plan cuts, shard::searchCuts(graph, costs, ranks, pins));
  TENON_ASSIGN(OwningOpRef<ModuleOp> cut, shard::cutGraph(*module, graph, cuts));
  TENON_TRY(checkIsCut(*cut, ranks));
  if (numbers) {
    TENON_ASSIGN(std::vector<reference::Tensor> inputs, seededInputs(*module));
    TENON_ASSIGN(shard::RankCheck check,
                 shard::checkRanks(*module, *cut, graph, cuts, weights, inputs));
    TENON_TRY(errorOf(check, ranks));
    numbers.reset(); // which knows one rank
  }
  TENON_TRY(shard::placeRanks(*cut, weights, ranks));
  module = std::move(cut);
  return Status::ok();
}

} // namespace tenon::pipeline
