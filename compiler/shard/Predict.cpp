// Replays a plan. Relies on a value being made whole once, as the cut graph does.
#include "compiler/shard/Predict.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace tenon::shard {
namespace {

/// What kernels leave in memory; what they rename or compute on the way is not.
bool isStored(Operation *op) {
  return op->getNumResults() > 0 && !op->hasTrait<tn::TnElementwise>() &&
         !op->hasTrait<tn::TnMovement>() && !isa<tn::ScatterNdOp>(op);
}

class Replay {
public:
  Replay(const Graph &theGraph, const Plan &thePlan, const Costs &theCosts)
      : graph(theGraph), plan(thePlan), costs(theCosts) {}

  RunPrediction run() {
    for (BlockArgument argument : graph.function().getArguments()) {
      states[argument] = graph.isState(argument) ? plan.states.lookup(argument) : State();
    }
    for (Operation *op : graph.operations()) {
      const Strategy &strategy = plan.strategies.find(op)->second;
      for (auto [operand, state] : llvm::zip_equal(op->getOperands(), strategy.operands)) {
        send(operand, state);
      }
      double own = costs.seconds(op, strategy) + costs.loopSeconds(op, strategy);
      prediction.computing[op] = own;
      prediction.seconds += own;
      for (auto [result, state] : llvm::zip_equal(op->getResults(), strategy.results)) {
        states[result] = state;
      }
    }
    Operation *end = graph.function().getBody().front().getTerminator();
    for (OpOperand &operand : end->getOpOperands()) {
      if (!graph.isStateResult(operand.getOperandNumber())) {
        send(operand.get(), State());
      }
    }
    for (auto &[key, count] : counts) {
      prediction.messages.push_back(count);
    }
    prediction.seconds += prediction.communicating;
    prediction.activationBytes = mostLive();
    return std::move(prediction);
  }

private:
  void send(Value value, const State &wanted) {
    if (graph.isConstant(value) || whole.contains(value)) {
      return;
    }
    Costs::Message message = costs.convert(value, states[value], wanted);
    if (!message.kind) {
      return;
    }
    whole.insert(value);
    MessageCount &count = counts[{*message.kind, message.bytes}];
    count.kind = *message.kind;
    count.bytes = message.bytes;
    count.seconds += message.seconds;
    ++count.count;
    prediction.communicating += message.seconds;
    prediction.sending[matrixBehind(value)] += message.seconds;
  }

  /// The operation with a matrix whose summand or part the value is.
  Operation *matrixBehind(Value value) const {
    Operation *op = value.getDefiningOp();
    while (op && !graph.matrixOf(op)) {
      Operation *next = nullptr;
      for (Value operand : op->getOperands()) {
        auto state = states.find(operand);
        bool isCut = state != states.end() && !state->second.isReplicated();
        next = isCut && operand.getDefiningOp() ? operand.getDefiningOp() : next;
      }
      op = next;
    }
    return op ? op : value.getDefiningOp();
  }

  /// Bytes of results that are still read, at the operation where they are most.
  int64_t mostLive() const {
    DenseMap<Value, size_t> last;
    ArrayRef<Operation *> ops = graph.operations();
    for (auto [index, op] : llvm::enumerate(ops)) {
      for (Value operand : op->getOperands()) {
        last[operand] = index;
      }
    }
    std::map<size_t, double> ending;
    double now = 0, most = 0;
    for (auto [index, op] : llvm::enumerate(ops)) {
      const Strategy &strategy = plan.strategies.find(op)->second;
      for (auto [result, state] : llvm::zip_equal(op->getResults(), strategy.results)) {
        if (isStored(op)) {
          double bytes = static_cast<double>(costs.bytesOf(result)) * shareOf(state, plan.ranks);
          now += bytes;
          ending[last.count(result) != 0 ? last[result] : ops.size()] += bytes;
        }
      }
      most = std::max(most, now);
      now -= ending[index];
    }
    return static_cast<int64_t>(most);
  }

  const Graph &graph;
  const Plan &plan;
  const Costs &costs;
  RunPrediction prediction;
  DenseMap<Value, State> states;
  DenseSet<Value> whole;
  std::map<std::pair<target::Collective, int64_t>, MessageCount> counts;
};

} // namespace

RunPrediction predictRun(const Graph &graph, const Plan &plan, const Costs &costs) {
  return Replay(graph, plan, costs).run();
}

int64_t weightBytesOf(const Graph &graph, const Plan &plan, const Costs &costs) {
  // Equal bytes are stored once; the whole and a rank's part of it are two arrays.
  struct Stored {
    double bytes = 0;
    std::vector<std::pair<State, double>> shares;
  };
  llvm::MapVector<const void *, Stored> all;
  for (Operation *op : graph.operations()) {
    const Strategy &strategy = plan.strategies.find(op)->second;
    for (auto [operand, state] : llvm::zip_equal(op->getOperands(), strategy.operands)) {
      for (tn::WeightOp weight : graph.weightsOf(operand)) {
        const tn::WeightEntry *entry = graph.store().find(weight.getId());
        bool isView = entry && !entry->bytes.empty();
        const void *key =
            isView ? static_cast<const void *>(entry->bytes.data()) : weight.getAsOpaquePointer();
        Stored &stored = all[key];
        stored.bytes = std::max(stored.bytes, static_cast<double>(costs.bytesOfWeight(weight)));
        std::pair<State, double> own = {state, shareOf(state, plan.ranks)};
        if (!llvm::is_contained(stored.shares, own)) {
          stored.shares.push_back(own);
        }
      }
    }
  }
  double bytes = 0;
  for (const auto &[key, stored] : all) {
    double share = 0;
    for (const auto &[state, own] : stored.shares) {
      share += own;
    }
    bytes += stored.bytes * share;
  }
  return static_cast<int64_t>(bytes);
}

int64_t stateBytesOf(const Graph &graph, const Plan &plan, const Costs &costs) {
  double bytes = 0;
  for (BlockArgument argument : graph.function().getArguments()) {
    if (graph.isState(argument)) {
      bytes += static_cast<double>(costs.bytesOf(argument)) *
               shareOf(plan.states.lookup(argument), plan.ranks);
    }
  }
  return static_cast<int64_t>(bytes);
}

Plan wholePlan(const Graph &graph) {
  Plan plan;
  for (Operation *op : graph.operations()) {
    plan.strategies[op] = replicatedStrategy(op);
  }
  return plan;
}

} // namespace tenon::shard
