// Relies on the residual stream being the only value between blocks; where more are, all are sent.
#include "compiler/shard/Stages.h"

#include "compiler/graph/Stages.h"
#include "compiler/graph/TnShard.h"
#include "support/text/Text.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace tenon::shard {
namespace {

/// Of all weights, the part that a value computed from inputs may read to be computed by each stage
/// for itself.
constexpr double kLightWeights = 1.0 / 256;
/// Between cuts that are equal for the slowest stage, those that send less.
constexpr double kOfSending = 0.01;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// What lies between the operations of a graph.
class Cuts {
public:
  Cuts(const Graph &theGraph, const Plan &thePlan, const Costs &theCosts,
       const target::Collectives &theLinks)
      : graph(theGraph), plan(thePlan), costs(theCosts), links(theLinks),
        ops(theGraph.operations()) {
    for (auto [index, op] : llvm::enumerate(ops)) {
      positions[op] = index;
    }
    for (Operation *op : ops) {
      seconds.push_back(costs.seconds(op, plan.strategies.find(op)->second));
      weights.push_back(weightsOf(op));
      allWeights += weights.back();
    }
    findLight();
    findStates();
    findLive();
  }

  size_t size() const { return ops.size(); }
  /// Values that pass from the operations before a position to those from it on.
  ArrayRef<Value> live(size_t position) const { return between[position]; }
  bool isAllowed(size_t position) const { return !insideState[position]; }
  double sendingAt(size_t position) const {
    double sum = 0;
    for (Value value : between[position]) {
      sum += links.seconds(target::Collective::AllGather, costs.bytesOf(value), 2);
    }
    return sum;
  }
  Stage stageOf(size_t first, size_t end) const {
    Stage stage{first, end, 0, first == 0 ? 0 : sendingAt(first), 0, 0, {}};
    for (size_t i = first; i < end; ++i) {
      stage.seconds += seconds[i];
      stage.weightBytes += weights[i];
      stage.stateBytes += states[i];
    }
    stage.received.assign(between[first].begin(), between[first].end());
    return stage;
  }
  /// By position: the part of time and memory of the operations before it, which are 1 together.
  std::vector<double> loads() const {
    double time = 0, memory = 0;
    for (size_t i = 0; i < ops.size(); ++i) {
      time += seconds[i];
      memory += static_cast<double>(weights[i] + states[i]);
    }
    std::vector<double> sums = {0};
    for (size_t i = 0; i < ops.size(); ++i) {
      double held = static_cast<double>(weights[i] + states[i]);
      sums.push_back(sums.back() + (time > 0 ? seconds[i] / time : 0) / 2 +
                     (memory > 0 ? held / memory : 0) / 2);
    }
    return sums;
  }
  double allSeconds() const {
    double sum = 0;
    for (double each : seconds) {
      sum += each;
    }
    return sum;
  }

private:
  int64_t weightsOf(Operation *op) const {
    double bytes = 0;
    const Strategy &strategy = plan.strategies.find(op)->second;
    for (auto [operand, state] : llvm::zip_equal(op->getOperands(), strategy.operands)) {
      double own = graph.isConstant(operand) ? costs.bytesOfConstant(operand) : 0;
      bytes += own * shareOf(state, plan.ranks);
    }
    return static_cast<int64_t>(bytes);
  }

  /// The operation of the graph in which a use is.
  std::optional<size_t> positionOf(Operation *user) const {
    auto found = positions.find(graph.function().getBody().front().findAncestorOpInBlock(*user));
    return found == positions.end() ? std::nullopt : std::optional(found->second);
  }

  /// Values of inputs alone that cost nothing; a state is one if what replaces it is.
  void findLight() {
    for (BlockArgument argument : graph.function().getArguments()) {
      light.insert(argument);
    }
    bool isSettled = false;
    while (!isSettled) {
      isSettled = true;
      for (auto [op, bytes] : llvm::zip_equal(ops, weights)) {
        bool isCheap =
            !op->hasTrait<tn::TnContraction>() && op->getNumRegions() == 0 &&
            static_cast<double>(bytes) <= kLightWeights * static_cast<double>(allWeights);
        bool isLight = isCheap && llvm::all_of(op->getOperands(), [&](Value operand) {
                         return graph.isConstant(operand) || light.contains(operand);
                       });
        for (Value result : op->getResults()) {
          isLight ? (void)light.insert(result) : (void)light.erase(result);
        }
      }
      Operation *end = graph.function().getBody().front().getTerminator();
      for (BlockArgument argument : graph.function().getArguments()) {
        std::optional<unsigned> result = graph.stateResult(argument);
        bool isHeavy = result && !light.contains(end->getOperand(*result)) &&
                       !graph.isConstant(end->getOperand(*result));
        isSettled &= !(isHeavy && light.erase(argument));
      }
    }
  }

  /// A state belongs to one stage: no cut between what reads it and what makes its new value.
  void findStates() {
    states.assign(ops.size(), 0);
    insideState.assign(ops.size() + 1, false);
    Operation *end = graph.function().getBody().front().getTerminator();
    for (BlockArgument argument : graph.function().getArguments()) {
      std::optional<unsigned> result = graph.stateResult(argument);
      if (!result || light.contains(argument)) {
        continue;
      }
      SmallVector<size_t> places;
      for (Operation *user : argument.getUsers()) {
        places.append(positionOf(user) ? 1 : 0, positionOf(user).value_or(0));
      }
      if (Operation *maker = end->getOperand(*result).getDefiningOp()) {
        places.append(positionOf(maker) ? 1 : 0, positionOf(maker).value_or(0));
      }
      if (places.empty()) {
        continue;
      }
      auto [first, last] = std::minmax_element(places.begin(), places.end());
      states[*first] += static_cast<int64_t>(static_cast<double>(costs.bytesOf(argument)) *
                                             shareOf(plan.states.lookup(argument), plan.ranks));
      std::fill(insideState.begin() + static_cast<int64_t>(*first) + 1,
                insideState.begin() + static_cast<int64_t>(*last) + 1, true);
    }
  }

  void findLive() {
    between.resize(ops.size() + 1);
    for (auto [index, op] : llvm::enumerate(ops)) {
      for (Value result : op->getResults()) {
        size_t last = index;
        for (Operation *user : result.getUsers()) {
          last = std::max(last, positionOf(user).value_or(0));
        }
        for (size_t i = index + 1; i <= last && !light.contains(result); ++i) {
          between[i].push_back(result);
        }
      }
    }
  }

  const Graph &graph;
  const Plan &plan;
  const Costs &costs;
  const target::Collectives &links;
  ArrayRef<Operation *> ops;
  DenseMap<Operation *, size_t> positions;
  std::vector<double> seconds;
  std::vector<int64_t> weights, states; ///< bytes, by operation
  int64_t allWeights = 0;
  DenseSet<Value> light;
  std::vector<bool> insideState;           ///< by position
  std::vector<SmallVector<Value>> between; ///< by position
};

/// The end of each stage, such that the largest load with what it receives is smallest.
std::vector<size_t> bestEnds(const Cuts &cuts, int64_t stages) {
  size_t count = cuts.size();
  std::vector<double> loads = cuts.loads(), sending(count + 1);
  double all = std::max(cuts.allSeconds(), 1e-12);
  for (size_t i = 1; i < count; ++i) {
    sending[i] = cuts.isAllowed(i) ? cuts.sendingAt(i) / all / 2 : kImpossible;
  }
  struct Way {
    double largest = kImpossible, sent = 0;
    size_t before = 0;
    double value() const { return largest + kOfSending * sent; }
  };
  std::vector<std::vector<Way>> ways(stages + 1, std::vector<Way>(count + 1));
  ways[0][0].largest = 0;
  for (int64_t stage = 1; stage <= stages; ++stage) {
    for (size_t end = 1; end <= count; ++end) {
      for (size_t first = 0; first < end; ++first) {
        const Way &before = ways[stage - 1][first];
        double own = loads[end] - loads[first];
        if (before.largest == kImpossible || own <= 0 || sending[first] == kImpossible) {
          continue;
        }
        Way way{std::max(before.largest, own + sending[first]), before.sent + sending[first],
                first};
        if (way.value() < ways[stage][end].value()) {
          ways[stage][end] = way;
        }
      }
    }
  }
  std::vector<size_t> ends;
  if (ways[stages][count].largest == kImpossible) {
    return ends;
  }
  for (size_t end = count, stage = stages; stage > 0; --stage) {
    ends.insert(ends.begin(), end);
    end = ways[stage][end].before;
  }
  return ends;
}

} // namespace

Result<std::vector<Stage>> findStages(const Graph &graph, const Plan &plan, const Costs &costs,
                                      const target::Collectives &links, int64_t stages) {
  Cuts cuts(graph, plan, costs, links);
  std::vector<size_t> ends = bestEnds(cuts, stages);
  if (ends.empty()) {
    return Status::error(ErrorId::BadArgument,
                         strCat("--pp ", stages, ": the model does not have ", stages,
                                " parts that follow each other"),
                         "name fewer stages");
  }
  std::vector<Stage> found;
  size_t first = 0;
  for (size_t end : ends) {
    found.push_back(cuts.stageOf(first, end));
    first = end;
  }
  return found;
}

void insertStages(ModuleOp module, const Graph &graph, const std::vector<Stage> &stages) {
  OpBuilder builder(module.getContext());
  module->setAttr(tn::kStages, builder.getI64IntegerAttr(static_cast<int64_t>(stages.size())));
  Block &block = graph.function().getBody().front();
  DenseMap<Value, Value> current; // a value in the stage at hand
  for (size_t stage = 1; stage < stages.size(); ++stage) {
    Operation *first = graph.operations()[stages[stage].first];
    builder.setInsertionPoint(first);
    for (Value value : stages[stage].received) {
      Value from = current.contains(value) ? current[value] : value;
      Value sent =
          tn::SendReceiveOp::create(builder, value.getLoc(), from, static_cast<int64_t>(stage) - 1);
      current[value] = sent;
      from.replaceUsesWithIf(sent, [&](OpOperand &use) {
        Operation *user = block.findAncestorOpInBlock(*use.getOwner());
        return user != sent.getDefiningOp() && !user->hasTrait<OpTrait::IsTerminator>() &&
               !user->isBeforeInBlock(first);
      });
    }
  }
}

} // namespace tenon::shard
