// Groups of operations that stay contiguous in the block: merging two moves what lies between
// before or after them. Relies on operations being free of effects, so any order is valid
// that respects uses, also those of symbols that data decides.
#include "compiler/dispatch/Grouping.h"

#include "compiler/graph/Views.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tenon::dispatch {

bool staysOutside(Operation *op) {
  return isa<tn::WeightOp, tn::ConstantOp, tn::PackOp>(op) ||
         op->hasTrait<OpTrait::IsTerminator>() ||
         (op->getNumResults() == 1 && tn::viewedBy(op->getResult(0)));
}

bool isScalarConstant(Operation *op) {
  tn::ConstantOp constant = dyn_cast_or_null<tn::ConstantOp>(op);
  return constant && constant.getValue().getNumElements() == 1;
}

SmallVector<Value> escapingResults(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  SmallVector<Value> values;
  for (Operation *op : ops) {
    for (Value result : op->getResults()) {
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !inside.contains(user); })) {
        values.push_back(result);
      }
    }
  }
  return values;
}

SmallVector<Value> outsideOperands(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  llvm::SmallSetVector<Value, 8> values;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands()) {
      if (!inside.contains(operand.getDefiningOp())) {
        values.insert(operand);
      }
    }
  }
  return values.takeVector();
}

Grouping::Grouping(Block *functionBody)
    : block(functionBody), binders(tn::sizeBinders(functionBody->getParentOp())) {
  for (auto [position, op] : llvm::enumerate(*block)) {
    positions[&op] = position;
  }
}

Group *Grouping::create(Operation *op, llvm::StringRef strategy, Operation *root) {
  std::unique_ptr<Group> group = std::make_unique<Group>();
  group->strategy = strategy;
  group->root = root;
  group->ops.push_back(op);
  groups[op] = group.get();
  owned.push_back(std::move(group));
  return owned.back().get();
}

Grouping::Unit Grouping::unitOf(Operation *op) const {
  DenseMap<Operation *, Group *>::const_iterator found = groups.find(op);
  return found == groups.end() ? Unit() : Unit(found->second->ops);
}

/// Whether one of the unit reads from an operation, or names a symbol that it binds.
bool Grouping::waitsFor(Unit unit, llvm::function_ref<bool(Operation *)> isAwaited) const {
  return llvm::any_of(unit, [&](Operation *part) {
    if (llvm::any_of(part->getOperands(),
                     [&](Value operand) { return isAwaited(operand.getDefiningOp()); })) {
      return true;
    }
    return !binders.empty() && llvm::any_of(tn::symbolsNamed(part), [&](unsigned symbol) {
      Operation *binder = binders.lookup(symbol);
      return binder && binder != part && isAwaited(binder);
    });
  });
}

/// Brings two contiguous units, of which the second reads from the first, together: what lies
/// between and depends on the first goes after both, the rest before. Impossible if the second
/// itself depends on something between that depends on the first.
const Rule *Grouping::joinUnits(Unit first, Unit second) {
  llvm::SmallPtrSet<Operation *, 16> reached(first.begin(), first.end());
  SmallVector<Operation *> later;
  size_t distance = 0;
  Operation *op = first.back()->getNextNode();
  while (op != second.front()) {
    if (++distance > kFarthest) {
      return &kTooFar;
    }
    Unit unit = unitOf(op);
    if (unit.empty()) {
      unit = Unit(op);
    }
    if (waitsFor(unit, [&](Operation *awaited) { return reached.contains(awaited); })) {
      reached.insert(unit.begin(), unit.end());
      later.append(unit.begin(), unit.end());
    }
    op = unit.back()->getNextNode();
  }
  if (waitsFor(second, [&](Operation *awaited) {
        return reached.contains(awaited) && !llvm::is_contained(first, awaited);
      })) {
    return &kCycle;
  }
  for (Operation *part : first) {
    part->moveBefore(second.front());
  }
  Operation *end = second.back();
  for (Operation *part : later) {
    part->moveAfter(end);
    end = part;
  }
  return nullptr;
}

const Rule *Grouping::absorbConsumer(Group *group, Operation *op) {
  const Rule *rule = joinUnits(group->ops, Unit(op));
  if (!rule) {
    group->ops.push_back(op);
    groups[op] = group;
  }
  return rule;
}

const Rule *Grouping::absorbProducer(Group *group, Operation *op) {
  const Rule *rule = joinUnits(Unit(op), group->ops);
  if (!rule) {
    group->ops.insert(group->ops.begin(), op);
    groups[op] = group;
  }
  return rule;
}

const Rule *Grouping::merge(Group *producers, Group *consumers) {
  const Rule *rule = joinUnits(producers->ops, consumers->ops);
  if (rule) {
    return rule;
  }
  for (Operation *op : consumers->ops) {
    groups[op] = producers;
  }
  producers->ops.append(consumers->ops);
  consumers->ops.clear();
  return nullptr;
}

void Grouping::truncate(Group *group, size_t count) {
  for (Operation *op : ArrayRef<Operation *>(group->ops).drop_front(count)) {
    groups.erase(op);
  }
  group->ops.resize(count);
}

SmallVector<Group *> Grouping::inOrder() const {
  SmallVector<Group *> result;
  for (Operation &op : *block) {
    Group *group = groupOf(&op);
    if (group && group->ops.front() == &op) {
      result.push_back(group);
    }
  }
  return result;
}

} // namespace tenon::dispatch
