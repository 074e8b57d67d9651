// Relies on the importer and on the passes before targets; only shapes are read of weights.

#include "tools/tenon/model/Sharding.h"

#include "compiler/frontend/Frontend.h"
#include "compiler/graph/NodeOrigin.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/NumericCheck.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Reports.h"
#include "compiler/shard/LikelyRuns.h"
#include "compiler/shard/Predict.h"
#include "compiler/shard/RunRanks.h"
#include "compiler/shard/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "support/text/Text.h"
#include "llvm/ADT/SetVector.h"

#include <algorithm>
#include <map>

namespace tenon::tool {
namespace {

/// Whether most bytes of weights are 16-bit floats.
bool isMostlyHalf(const shard::Graph &graph) {
  uint64_t half = 0, all = 0;
  graph.function().walk([&](tn::WeightOp weight) {
    mlir::RankedTensorType type = llvm::cast<mlir::RankedTensorType>(weight.getY().getType());
    const tn::WeightEntry *entry = graph.store().find(weight.getId());
    uint64_t bytes = entry ? entry->size : 0;
    all += bytes;
    half += type.getElementType().isF16() || type.getElementType().isBF16() ? bytes : 0;
  });
  return 2 * half > all;
}

std::string sizesOf(mlir::Value matrix) {
  std::string text;
  for (mlir::AffineExpr dim : tn::getDims(matrix.getType())) {
    text += strCat(text.empty() ? "" : " x ", tn::constantDim(dim).value_or(0));
  }
  return text;
}

std::string cutName(const shard::Graph &graph, mlir::Operation *op,
                    const shard::Strategy &strategy) {
  switch (shard::matrixCutOf(graph, op, strategy)) {
  case shard::MatrixCut::Whole:
    return "replicate";
  case shard::MatrixCut::Columns:
    return "column";
  case shard::MatrixCut::Batch:
    return "expert";
  case shard::MatrixCut::Rows:
    break;
  }
  return llvm::isa<tn::GatherOp>(op) ? "vocabulary" : "row";
}

/// Positions for which a session has caches.
int64_t positionsOf(const shard::Graph &graph, bool hasPages) {
  for (mlir::BlockArgument argument : graph.function().getArguments()) {
    tn::Dims dims = tn::getDims(argument.getType());
    if (graph.isState(argument) && !dims.empty()) {
      int64_t first = tn::constantDim(dims[0]).value_or(1);
      return hasPages && dims.size() > 2 ? first * tn::constantDim(dims[2]).value_or(1) : first;
    }
  }
  return 1;
}

/// Seeded tokens in pages: as many sequences as there are, each in a page of its own.
void placeInPages(mlir::func::FuncOp function, std::vector<reference::Tensor> &inputs) {
  std::map<std::string, reference::Tensor *> named;
  for (auto [index, input] : llvm::enumerate(inputs)) {
    mlir::StringAttr name = function.getArgAttrOfType<mlir::StringAttr>(index, "tn.name");
    named[name ? name.str() : ""] = &input;
  }
  bool isPaged = llvm::all_of(
      std::initializer_list<const char *>{"positions", "slots", "starts", "lengths", "pages"},
      [&](const char *name) { return named.contains(name); });
  if (!isPaged) {
    return;
  }
  auto numbers = [&](const char *name) { return named[name]->as<int64_t>(); };
  int64_t sequences = named["lengths"]->count(), tokens = named["slots"]->count();
  int64_t table = named["pages"]->count() / sequences, page = 1;
  for (auto [index, input] : llvm::enumerate(inputs)) {
    page = input.rank() == 4 ? input.dims()[2] : page;
  }
  int64_t token = 0;
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    int64_t own = tokens * (sequence + 1) / sequences - token;
    numbers("starts")[sequence] = token;
    numbers("lengths")[sequence] = own;
    for (int64_t i = 0; i < table; ++i) {
      numbers("pages")[sequence * table + i] = sequence;
    }
    for (int64_t position = 0; position < own; ++position, ++token) {
      numbers("positions")[token] = position;
      numbers("slots")[token] = sequence * page + position;
    }
  }
  numbers("starts")[sequences] = token;
}

class Predictor {
public:
  Predictor(const ShardingRequest &theRequest, mlir::ModuleOp theModule,
            const shard::Graph &theGraph, tn::WeightStore &theStore)
      : request(theRequest), module(theModule), graph(theGraph), store(theStore),
        collectives(theRequest.target),
        runs(shard::likelyRuns(theModule, theGraph.function(), theRequest.context)) {
    if (request.allReduce) {
      collectives.setShortest(*request.allReduce);
    }
    isHalf = request.precision.empty() ? isMostlyHalf(graph) : request.precision != "fp32";
  }

  Result<ShardingReport> report() {
    ShardingReport made;
    made.target = request.target.name;
    made.memoryBytes = target::memoryBytesOf(request.target);
    made.precision = isHalf ? "16-bit floats" : "32-bit floats";
    made.messages = request.allReduce          ? "as given for short ones"
                    : collectives.isMeasured() ? "measured between two of these GPUs"
                                               : "estimated by the links of the part";
    std::vector<shard::Pin> pins;
    for (const std::string &text : request.pins) {
      TENON_ASSIGN(shard::Pin pin, shard::parsePin(text));
      pins.push_back(std::move(pin));
    }
    for (int64_t ranks : request.ranks) {
      shard::Plan plan = shard::wholePlan(graph);
      if (ranks > 1) {
        TENON_ASSIGN(plan, shard::searchCuts(graph, costsOf(ranks, 0), ranks, pins));
      }
      TENON_ASSIGN(ShardingOption option, optionOf(plan));
      made.options.push_back(std::move(option));
    }
    return made;
  }

private:
  shard::Costs costsOf(int64_t ranks, size_t run) const {
    return shard::Costs(graph, request.target, collectives, ranks, isHalf, runs[run].symbols);
  }

  Result<ShardingOption> optionOf(const shard::Plan &plan) {
    ShardingOption option;
    option.ranks = plan.ranks;
    option.isExhaustive = plan.isExhaustive;
    shard::Costs costs = costsOf(plan.ranks, 0);
    option.weightBytes = shard::weightBytesOf(graph, plan, costs);
    option.cacheBytesOfToken =
        shard::stateBytesOf(graph, plan, costs) / positionsOf(graph, request.pages > 0);
    shard::Plan one = shard::wholePlan(graph);
    for (size_t index = 0; index < runs.size(); ++index) {
      shard::RunPrediction whole = shard::predictRun(graph, one, costsOf(1, index));
      shard::RunPrediction cut = shard::predictRun(graph, plan, costsOf(plan.ranks, index));
      option.activationBytes = std::max(option.activationBytes, cut.activationBytes);
      ShardingRun run{runs[index].name, whole.seconds, cut.seconds, {}};
      for (const shard::MessageCount &each : cut.messages) {
        bool isSum = each.kind == target::Collective::AllReduce;
        run.messages.push_back(
            {isSum ? "all-reduce" : "all-gather", each.bytes, each.count, each.seconds});
      }
      option.runs.push_back(std::move(run));
      if (index == 0) {
        addMatrices(option, plan, whole, cut);
      }
    }
    if (request.stages > 1) {
      TENON_TRY(addStages(option, plan));
    }
    llvm::SetVector<llvm::StringRef> without;
    for (mlir::Operation *op : graph.operations()) {
      if (!shard::hasRule(op) && op->getNumOperands() > 0) {
        without.insert(op->getName().stripDialect());
      }
    }
    option.withoutRule.assign(without.begin(), without.end());
    if (request.isChecked && plan.ranks > 1) {
      TENON_TRY(check(option, plan));
    }
    return option;
  }

  Status addStages(ShardingOption &option, const shard::Plan &plan) const {
    target::Collectives links(request.target);
    shard::Costs costs = costsOf(plan.ranks, 0);
    TENON_ASSIGN(std::vector<shard::Stage> stages,
                 shard::findStages(graph, plan, costs, links, request.stages));
    int64_t positions = positionsOf(graph, request.pages > 0);
    for (const shard::Stage &stage : stages) {
      ShardingStage own;
      for (size_t i = stage.first; i < stage.end; ++i) {
        mlir::Operation *op = graph.operations()[i];
        if (graph.matrixOf(op)) {
          own.last = tn::nodeName(op);
          own.first = own.first.empty() ? own.last : own.first;
        }
      }
      own.weightBytes = stage.weightBytes;
      own.cacheBytesOfToken = stage.stateBytes / positions;
      own.seconds = stage.seconds;
      own.receiving = stage.receiving;
      for (mlir::Value value : stage.received) {
        own.receivedBytes += costs.bytesOf(value);
      }
      option.stages.push_back(std::move(own));
    }
    return Status::ok();
  }

  void addMatrices(ShardingOption &option, const shard::Plan &plan,
                   const shard::RunPrediction &whole, const shard::RunPrediction &cut) const {
    std::map<std::string, size_t> known;
    for (mlir::Operation *op : graph.operations()) {
      std::optional<unsigned> matrix = graph.matrixOf(op);
      if (!matrix) {
        continue;
      }
      ShardedMatrix row{shard::foldedName(tn::nodeName(op)),
                        sizesOf(op->getOperand(*matrix)),
                        cutName(graph, op, plan.strategies.find(op)->second),
                        0,
                        whole.computing.lookup(op),
                        cut.computing.lookup(op),
                        cut.sending.lookup(op)};
      std::string key = strCat(row.name, '\n', row.sizes, '\n', row.cut);
      auto [found, isNew] = known.try_emplace(key, option.matrices.size());
      if (isNew) {
        option.matrices.push_back(std::move(row));
      }
      ++option.matrices[found->second].count;
    }
  }

  Status check(ShardingOption &option, const shard::Plan &plan) {
    TENON_ASSIGN(mlir::OwningOpRef<mlir::ModuleOp> cut, shard::cutGraph(module, graph, plan));
    TENON_ASSIGN(std::vector<reference::Tensor> inputs, pipeline::seededInputs(module));
    placeInPages(graph.function(), inputs);
    TENON_ASSIGN(shard::RankCheck checked,
                 shard::checkRanks(module, *cut, graph, plan, store, inputs));
    option.difference = checked.difference;
    option.differs = checked.output;
    return Status::ok();
  }

  const ShardingRequest &request;
  mlir::ModuleOp module;
  const shard::Graph &graph;
  tn::WeightStore &store;
  target::Collectives collectives;
  std::vector<shard::LikelyRun> runs;
  bool isHalf = false;
};

Result<ShardingReport> predict(const ShardingRequest &request) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  tn::WeightStore store;
  frontend::ImportOptions options;
  options.shapes = pipeline::toOverrides(request.shapes);
  options.pages = request.pages;
  TENON_ASSIGN(frontend::ImportResult imported,
               frontend::importModel(request.model, options, context, store));
  if (!imported.gaps.empty() || !imported.module) {
    return pipeline::gapReport(request.model, imported.gaps);
  }
  if (failed(opt::optimize(*imported.module, store, {}))) {
    return Status::error(ErrorId::InternalError, "the model could not be optimized");
  }
  shard::Graph graph(*imported.module, store);
  return Predictor(request, *imported.module, graph, store).report();
}

} // namespace

Result<ShardingReport> predictSharding(const ShardingRequest &request) {
  Result<ShardingReport> report = Status::error(ErrorId::InternalError, "no report");
  if (std::optional<std::string> crash = pipeline::crashOf([&] { report = predict(request); })) {
    return Status::error(ErrorId::CompilerFault, "in phase 'shard': " + *crash,
                         "report this with the model");
  }
  return report;
}

} // namespace tenon::tool
