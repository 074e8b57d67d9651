// `--tp` and `--pp`: the model becomes that of one rank of each stage, for all of them. Relies on
// optimized `tn` in the precision that it is computed in; what follows knows nothing of ranks but
// that some weights are each rank's own, and of stages but that values are sent between them.
#include "compiler/pipeline/Compilation.h"

#include "compiler/graph/EqualSums.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/graph/TnShard.h"
#include "compiler/shard/CutGraph.h"
#include "compiler/shard/LikelyRuns.h"
#include "compiler/shard/Predict.h"
#include "compiler/shard/RankWeights.h"
#include "compiler/shard/RunRanks.h"
#include "compiler/shard/Stages.h"
#include "compiler/shard/Sums.h"
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
    tn::RankSliceOp slice = dyn_cast<tn::RankSliceOp>(op);
    bool isOfRanks = (slice && !slice.getPart()) || isa<tn::AllReduceOp, tn::AllGatherOp>(op);
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

/// What a CPU's ranks exchange costs nothing.
target::Collectives messagesOf(const target::Target &part) {
  target::Collectives collectives(part);
  if (!part.isGpu()) {
    collectives.setShortest(kFreeSeconds);
  }
  return collectives;
}

class Cutter {
public:
  Cutter(const shard::Graph &modelGraph, const target::Target &target, shard::Symbols likelySizes,
         const std::vector<shard::Pin> &asked)
      : graph(modelGraph), part(target), messages(messagesOf(target)),
        sizes(std::move(likelySizes)), pins(asked) {}

  Result<shard::Plan> cuts(int64_t ranks, const llvm::DenseSet<Operation *> *sums = nullptr) const {
    shard::Costs costs(graph, part, messages, ranks, /*halves=*/false, sizes);
    return shard::searchCuts(graph, costs, ranks, pins, sums);
  }
  /// The same products, and so the same bits, whatever number of ranks is compiled for.
  Result<shard::Plan> cutsWithEqualSums(int64_t ranks) const {
    llvm::DenseSet<Operation *> all = shard::summable(graph), sums;
    for (int64_t number : {2, 4}) {
      TENON_ASSIGN(shard::Plan plan, cuts(number, &all));
      shard::addRowCuts(graph, plan, sums);
    }
    return ranks == 1 ? shard::planOfOne(graph, std::move(sums)) : cuts(ranks, &sums);
  }

private:
  const shard::Graph &graph;
  const target::Target &part;
  target::Collectives messages;
  shard::Symbols sizes;
  const std::vector<shard::Pin> &pins;
};

} // namespace

/// GPUs fuse a norm with a product in front of which no rank is waited for, which changes bits.
bool Compilation::keepsSums() const {
  return options.invariant && options.gpus.empty() && options.tensorParallel > 0 &&
         shard::keepsSumsOf(static_cast<int64_t>(options.tensorParallel));
}

Status Compilation::cutForRanks() {
  uint64_t ranks = std::max<uint64_t>(options.tensorParallel, 1);
  uint64_t most = std::max(ranks, options.pipelineParallel);
  if (most > engine::kMaxPlanRanks || ranks * options.pipelineParallel > engine::kMaxPlanRanks) {
    return Status::error(ErrorId::BadArgument,
                         strCat("--tp ", ranks, " --pp ", options.pipelineParallel, ": at most ",
                                engine::kMaxPlanRanks, " ranks are possible"),
                         "name fewer");
  }
  bool hasOwn = false;
  module->walk([&](tn::CustomOp) { hasOwn = true; });
  if (hasOwn && most > 1) {
    return Status::error(ErrorId::BadArgument, "kernels of the user's run on one rank",
                         "leave out --tp and --pp");
  }
  if (options.tensorParallel > (keepsSums() ? 0 : 1)) {
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
  Cutter cutter(graph, part,
                shard::likelyRuns(*module, graph.function(), kLikelyContext).front().symbols, pins);
  bool hasEqualSums = keepsSums();
  TENON_ASSIGN(shard::Plan cuts,
               hasEqualSums ? cutter.cutsWithEqualSums(ranks) : cutter.cuts(ranks));
  TENON_ASSIGN(OwningOpRef<ModuleOp> cut, shard::cutGraph(*module, graph, cuts));
  if (ranks > 1) {
    TENON_TRY(checkIsCut(*cut, ranks));
  }
  if (numbers && ranks > 1) {
    TENON_ASSIGN(std::vector<reference::Tensor> inputs, seededInputs(*module));
    TENON_ASSIGN(shard::RankCheck check,
                 shard::checkRanks(*module, *cut, graph, cuts, weights, inputs));
    TENON_TRY(errorOf(check, ranks));
    numbers.reset(); // which knows one rank
  }
  TENON_TRY(shard::placeRanks(*cut, weights, ranks));
  module = std::move(cut);
  if (hasEqualSums) {
    tn::setEqualSums(*module);
  }
  return numbers ? checkNumbers("sums in parts", *module) : Status::ok();
}

} // namespace tenon::pipeline
