// `--tp`: the model becomes that of one rank, for all of them. Relies on optimized `tn` in the
// precision that it is computed in; what follows knows nothing of ranks but that some weights are
// each rank's own.
#include "compiler/pipeline/Compilation.h"

#include "compiler/shard/CutGraph.h"
#include "compiler/shard/LikelyRuns.h"
#include "compiler/shard/RankWeights.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// Positions before a token of which the time is predicted.
constexpr int64_t kLikelyContext = 2048;

/// What ranks of a CPU exchange stays in one memory: their cuts show what GPUs do.
constexpr double kFreeSeconds = 1e-9;

} // namespace

Status Compilation::cutForRanks() {
  if (options.tensorParallel > engine::kMaxPlanRanks) {
    return Status::error(ErrorId::BadArgument,
                         strCat("--tp ", options.tensorParallel, ": at most ",
                                engine::kMaxPlanRanks, " ranks are possible"),
                         "name fewer");
  }
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
  TENON_TRY(shard::placeRanks(*cut, weights, ranks));
  module = std::move(cut);
  numbers.reset(); // which knows one rank
  return Status::ok();
}

} // namespace tenon::pipeline
