// Dynamic programming over the operations. Relies on states being numbered, so that combinations of
// them are compared as numbers.
#include "compiler/shard/Search.h"

#include "compiler/graph/NodeOrigin.h"
#include "support/Check.h"
#include "support/text/Text.h"

#include <algorithm>
#include <map>
#include <unordered_map>

using namespace mlir;

namespace tenon::shard {
namespace {

using Id = uint16_t;
constexpr Id kReplicated = 0, kOpen = 1; ///< kOpen: state of a session that nothing has read yet
/// Of what the values that are still read may be; a decoder has at most some dozens.
constexpr size_t kMostCombinations = 512;
constexpr double kNever = 1e30;

class States {
public:
  States() { all = {State::replicated(), State::replicated()}; }
  Id idOf(const State &state) {
    if (state.isReplicated()) {
      return kReplicated;
    }
    for (size_t i = 2; i < all.size(); ++i) {
      if (all[i] == state) {
        return static_cast<Id>(i);
      }
    }
    all.push_back(state);
    return static_cast<Id>(all.size() - 1);
  }
  const State &operator[](Id id) const { return all[id]; }

private:
  std::vector<State> all;
};

/// A way to compute one operation, for given states of its operands.
struct Way {
  const Strategy *strategy = nullptr;
  double seconds = 0;
  SmallVector<Id, 4> operands; ///< afterwards, of those that are not constant
  SmallVector<Id, 1> results;
};

struct Combination {
  double seconds = 0;
  int32_t before = -1;
  const Strategy *strategy = nullptr;
  SmallVector<Id, 8> live;
};

struct HashIds {
  size_t operator()(const SmallVector<Id, 8> &ids) const {
    return llvm::hash_combine_range(ids.begin(), ids.end());
  }
};

bool holds(Pin::Kind kind, MatrixCut cut) {
  return kind == Pin::Kind::Column ? cut == MatrixCut::Columns
         : kind == Pin::Kind::Row  ? cut == MatrixCut::Rows
                                   : cut == MatrixCut::Whole;
}

class Walk {
public:
  Walk(const Graph &theGraph, const Costs &theCosts, int64_t theRanks,
       const std::vector<Pin> &thePins, const DenseSet<Operation *> *theSums)
      : graph(theGraph), costs(theCosts), ranks(theRanks), pins(thePins), sums(theSums) {}

  Result<Plan> run();

private:
  using Ids = SmallVector<Id, 8>;
  /// Values around an operation: `live` of the ones before, then the fresh ones.
  struct Frontier {
    SmallVector<Value> operands; ///< each once, without constants
    SmallVector<Id> fresh;       ///< of arguments that are first read here
    SmallVector<size_t> slots;   ///< of the operands
    SmallVector<size_t> kept;    ///< slots of what is read later
    SmallVector<unsigned> made;  ///< results that are read
  };

  void findLastUses();
  Frontier frontierAt(Operation *op);
  static Ids behind(const Frontier &at, Ids ids, const Way &way);
  Status step(Operation *op);
  std::vector<Way> waysOf(Operation *op, ArrayRef<Value> operands, ArrayRef<Id> have);
  std::vector<const Strategy *> candidates(Operation *op, ArrayRef<Value> operands,
                                           ArrayRef<Id> have);
  bool keepsSums(Operation *op, const Strategy &strategy) const;
  Status pinFault(Operation *op, const Pin &pin) const;
  Result<Plan> finish();

  const Graph &graph;
  const Costs &costs;
  int64_t ranks;
  const std::vector<Pin> &pins;
  const DenseSet<Operation *> *sums; ///< null: any operation may leave summands
  States states;
  std::vector<std::unique_ptr<Strategy>> strategies; ///< owned; ways point to them
  DenseMap<Value, Operation *> lastUse;              ///< null: a result of the function
  SmallVector<Value> live;
  std::vector<std::vector<Combination>> steps;
  bool isExhaustive = true;
};

void Walk::findLastUses() {
  Operation *end = graph.function().getBody().front().getTerminator();
  for (Operation *op : graph.operations()) {
    for (Value operand : op->getOperands()) {
      lastUse[operand] = op;
    }
  }
  for (OpOperand &operand : end->getOpOperands()) {
    if (!graph.isStateResult(operand.getOperandNumber())) {
      lastUse[operand.get()] = nullptr;
    }
  }
}

/// Ways that differ, without those that a pin forbids.
std::vector<const Strategy *> Walk::candidates(Operation *op, ArrayRef<Value> operands,
                                               ArrayRef<Id> have) {
  std::vector<const Strategy *> found;
  const Pin *pin = graph.matrixOf(op) ? pinOf(pins, op) : nullptr;
  auto add = [&](std::optional<Strategy> strategy) {
    bool isNew = strategy && keepsSums(op, *strategy) &&
                 llvm::none_of(found, [&](const Strategy *other) { return *other == *strategy; });
    if (isNew && (!pin || holds(pin->kind, matrixCutOf(graph, op, *strategy)))) {
      strategies.push_back(std::make_unique<Strategy>(std::move(*strategy)));
      found.push_back(strategies.back().get());
    }
  };
  add(replicatedStrategy(op));
  for (OpOperand &operand : op->getOpOperands()) {
    const Value *own = llvm::find(operands, operand.get());
    const State *state = own == operands.end() ? nullptr : &states[have[own - operands.begin()]];
    if (state && state->isSplit()) {
      add(followCut(op, operand.getOperandNumber(), state->cut, ranks));
    } else if (state && state->isPartial()) {
      add(followPartial(op, operand.getOperandNumber()));
    }
  }
  for (const auto &[operand, cut] : graph.originsOf(op, ranks)) {
    add(followCut(op, operand, cut, ranks));
  }
  return found;
}

bool Walk::keepsSums(Operation *op, const Strategy &strategy) const {
  auto isPartial = [](const State &state) { return state.isPartial(); };
  return !sums || (llvm::none_of(strategy.operands, isPartial) &&
                   (llvm::none_of(strategy.results, isPartial) ||
                    (sums->contains(op) && llvm::all_of(strategy.operands, [](const State &state) {
                       return state.cut.isPlain();
                     }))));
}

std::vector<Way> Walk::waysOf(Operation *op, ArrayRef<Value> operands, ArrayRef<Id> have) {
  std::vector<Way> ways;
  for (const Strategy *strategy : candidates(op, operands, have)) {
    Way way{strategy, costs.seconds(op, *strategy), SmallVector<Id, 4>(have), {}};
    for (OpOperand &operand : op->getOpOperands()) {
      const Value *own = llvm::find(operands, operand.get());
      if (own == operands.end()) {
        continue;
      }
      Id &id = way.operands[own - operands.begin()];
      const State &wanted = strategy->operands[operand.getOperandNumber()];
      if (id == kOpen) {
        id = states.idOf(wanted);
        continue;
      }
      // After a collective every rank has all of it.
      Costs::Message message = costs.convert(operand.get(), states[id], wanted);
      way.seconds += message.seconds;
      id = message.kind ? kReplicated : id;
    }
    for (const State &result : strategy->results) {
      way.results.push_back(states.idOf(result));
    }
    ways.push_back(std::move(way));
  }
  return ways;
}

Status Walk::pinFault(Operation *op, const Pin &pin) const {
  std::string name = tn::nodeName(op);
  std::string sizes;
  for (AffineExpr dim : tn::getDims(op->getOperand(*graph.matrixOf(op)).getType())) {
    sizes += strCat(sizes.empty() ? "" : " x ", tn::constantDim(dim).value_or(0));
  }
  return Status::error(ErrorId::BadArgument,
                       strCat("--pin ", pin.node, '=', nameOf(pin.kind), ": '", name,
                              "' cannot be cut so for ", ranks, " GPUs: its matrix is ", sizes),
                       strCat("pin it to replicate, or ask for a number of GPUs that divides it"));
}

Walk::Frontier Walk::frontierAt(Operation *op) {
  Frontier at;
  for (Value operand : op->getOperands()) {
    if (!graph.isConstant(operand) && !llvm::is_contained(at.operands, operand)) {
      at.operands.push_back(operand);
    }
  }
  // An argument lives from its first use on.
  SmallVector<Value> now = live;
  for (Value operand : at.operands) {
    if (!llvm::is_contained(now, operand)) {
      now.push_back(operand);
      at.fresh.push_back(graph.isState(operand) ? kOpen : kReplicated);
    }
    at.slots.push_back(llvm::find(now, operand) - now.begin());
  }
  live.clear();
  for (auto [slot, value] : llvm::enumerate(now)) {
    auto last = lastUse.find(value);
    if (last != lastUse.end() && last->second != op) {
      at.kept.push_back(slot);
      live.push_back(value);
    }
  }
  for (OpResult result : op->getResults()) {
    if (lastUse.contains(result)) {
      at.made.push_back(result.getResultNumber());
      live.push_back(result);
    }
  }
  return at;
}

/// The states of what is still read behind the operation.
Walk::Ids Walk::behind(const Frontier &at, Ids ids, const Way &way) {
  for (auto [slot, id] : llvm::zip_equal(at.slots, way.operands)) {
    ids[slot] = id;
  }
  Ids after;
  for (size_t slot : at.kept) {
    after.push_back(ids[slot]);
  }
  for (unsigned result : at.made) {
    after.push_back(way.results[result]);
  }
  return after;
}

Status Walk::step(Operation *op) {
  Frontier at = frontierAt(op);
  std::map<SmallVector<Id>, std::vector<Way>> known;
  std::unordered_map<Ids, size_t, HashIds> seen;
  std::vector<Combination> next;
  for (auto [index, combination] : llvm::enumerate(steps.back())) {
    Ids ids = combination.live;
    ids.append(at.fresh.begin(), at.fresh.end());
    SmallVector<Id> have;
    for (size_t slot : at.slots) {
      have.push_back(ids[slot]);
    }
    auto [found, isNew] = known.try_emplace(have);
    if (isNew) {
      found->second = waysOf(op, at.operands, have);
    }
    for (const Way &way : found->second) {
      Ids after = behind(at, ids, way);
      auto [place, isFirst] = seen.try_emplace(after, next.size());
      if (isFirst) {
        next.push_back({kNever, -1, nullptr, after});
      }
      Combination &best = next[place->second];
      double seconds = combination.seconds + way.seconds;
      if (seconds < best.seconds) {
        best.seconds = seconds;
        best.before = static_cast<int32_t>(index);
        best.strategy = way.strategy;
      }
    }
  }
  if (next.empty()) {
    return pinFault(op, *pinOf(pins, op));
  }
  if (next.size() > kMostCombinations) {
    isExhaustive = false;
    std::ranges::stable_sort(next, {}, &Combination::seconds);
    next.resize(kMostCombinations);
  }
  steps.push_back(std::move(next));
  return Status::ok();
}

Result<Plan> Walk::finish() {
  Operation *end = graph.function().getBody().front().getTerminator();
  const std::vector<Combination> &last = steps.back();
  size_t best = 0;
  double least = kNever;
  for (auto [index, combination] : llvm::enumerate(last)) {
    double seconds = combination.seconds;
    for (auto [value, id] : llvm::zip_equal(live, combination.live)) {
      seconds += costs.convert(value, states[id], State()).seconds;
    }
    if (seconds < least) {
      least = seconds;
      best = index;
    }
  }
  Plan plan;
  plan.ranks = ranks;
  plan.seconds = least;
  plan.isExhaustive = isExhaustive;
  ArrayRef<Operation *> ops = graph.operations();
  for (size_t i = ops.size(); i-- > 0;) {
    const Combination &combination = steps[i + 1][best];
    plan.strategies[ops[i]] = *combination.strategy;
    best = combination.before;
  }
  // A session keeps what the operation that writes it makes.
  for (BlockArgument argument : graph.function().getArguments()) {
    if (std::optional<unsigned> result = graph.stateResult(argument)) {
      OpResult made = dyn_cast<OpResult>(end->getOperand(*result));
      bool isComputed = made && plan.strategies.contains(made.getOwner());
      State state =
          isComputed ? plan.strategies[made.getOwner()].results[made.getResultNumber()] : State();
      plan.states[argument] = state.isPartial() ? State() : state;
    }
  }
  return plan;
}

Result<Plan> Walk::run() {
  findLastUses();
  steps.push_back({Combination{}});
  for (const Pin &pin : pins) {
    std::vector<std::string> names;
    for (Operation *op : graph.operations()) {
      if (graph.matrixOf(op)) {
        names.push_back(tn::nodeName(op));
        if (pinOf(pin, op)) {
          names.clear();
          break;
        }
      }
    }
    if (!names.empty() || graph.operations().empty()) {
      return Status::error(
          ErrorId::BadArgument,
          strCat("--pin ", pin.node, ": the model has no matrix of that name"),
          strCat("one is '", names.back(), "'; tenon explain sharding --all lists all of them"));
    }
  }
  for (Operation *op : graph.operations()) {
    TENON_TRY(step(op));
  }
  return finish();
}

} // namespace

MatrixCut matrixCutOf(const Graph &graph, Operation *op, const Strategy &strategy) {
  std::optional<unsigned> matrix = graph.matrixOf(op);
  if (!matrix || !strategy.operands[*matrix].isSplit()) {
    return MatrixCut::Whole;
  }
  if (strategy.results[0].isPartial()) {
    return MatrixCut::Rows;
  }
  std::optional<FactorRule> rule = factorRuleOf(op);
  int64_t rank = cast<RankedTensorType>(op->getOperand(*matrix).getType()).getRank();
  bool isBatch = isa<tn::MatmulOp>(op) && strategy.operands[*matrix].cut.dim < rank - 2;
  return isBatch ? MatrixCut::Batch : MatrixCut::Columns;
}

Result<Plan> searchCuts(const Graph &graph, const Costs &costs, int64_t ranks,
                        const std::vector<Pin> &pins, const DenseSet<Operation *> *sums) {
  Result<Plan> plan = Walk(graph, costs, ranks, pins, sums).run();
  if (plan.isOk() && sums) {
    plan->sums = *sums;
  }
  return plan;
}

} // namespace tenon::shard
