// Scatters on a GPU compute the updates and the indices where they write: each is read once for an
// element that is written. Relies on few updates coming in order, so that as many threads compute
// them as would in a kernel of their own.
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Updates that one thread writes one after another, since they may go to the same place.
constexpr int64_t kMaxInOrder = 16;

int64_t updatesInOrder(const CostModel &costs, Operation *scatter) {
  if (tn::ScatterElementsOp elements = dyn_cast<tn::ScatterElementsOp>(scatter)) {
    return costs.countOf(tn::getDims(elements.getUpdates().getType())[elements.getAxis()]);
  }
  tn::Dims indices = tn::getDims(cast<tn::ScatterNdOp>(scatter).getIndices().getType());
  return costs.countOf(ArrayRef(indices).drop_back());
}

} // namespace

bool hasFewUpdates(const CostModel &costs, Operation *scatter) {
  return updatesInOrder(costs, scatter) <= kMaxInOrder;
}

namespace {

bool isReadBy(Operation *op, Group *group) {
  return llvm::all_of(op->getUsers(),
                      [&](Operation *user) { return llvm::is_contained(group->ops, user); });
}

/// Whether an operation without a group is computed as well where it is read.
bool isComputedThere(Formation &formation, Operation *op) {
  bool isKind = isElementwise(op) || (isMovement(op, formation.device()) && !movesInnermost(op));
  return isKind && !formation.grouping.groupOf(op);
}

/// The operation behind the reshapes of `value`, of which nobody else reads one; they are added to
/// `reshapes`.
Operation *behindReshapes(Value value, SmallVector<Operation *> &reshapes) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<tn::ReshapeOp>(op) && op->hasOneUse()) {
    reshapes.push_back(op);
    op = op->getOperand(0).getDefiningOp();
  }
  return op;
}

/// A broadcast that others read too is made again for this group.
Operation *copyBroadcast(Operation *broadcast, Group *group) {
  Operation *copy = broadcast->clone();
  Operation *front = group->ops.front();
  front->getBlock()->getOperations().insert(Block::iterator(front), copy);
  broadcast->replaceUsesWithIf(
      copy, [&](OpOperand &use) { return llvm::is_contained(group->ops, use.getOwner()); });
  if (broadcast->use_empty()) {
    broadcast->erase();
  }
  return copy;
}

/// Adds what computes `value`, if it can be; whether the group changed.
bool takeProducer(Formation &formation, Group *group, Value value) {
  SmallVector<Operation *> taken;
  Operation *producer = behindReshapes(value, taken);
  if (!producer || !isComputedThere(formation, producer) ||
      group->ops.size() + taken.size() >= kMaxOperations) {
    return false;
  }
  if (taken.empty() && isa<tn::BroadcastOp>(producer) && !isReadBy(producer, group)) {
    producer = copyBroadcast(producer, group);
  }
  Operation *reader = taken.empty() ? nullptr : taken.back();
  bool isOwn = reader
                   ? llvm::all_of(producer->getUsers(), [&](Operation *u) { return u == reader; })
                   : isReadBy(producer, group);
  if (!isOwn) {
    return false;
  }
  taken.push_back(producer);
  for (Operation *op : taken) {
    if (const Rule *rule = formation.grouping.absorbProducer(group, op)) {
      formation.refuse(producer, group->root, *rule);
      return false;
    }
  }
  return true;
}

void takeProducers(Formation &formation, Group *group) {
  bool hasChanged = true;
  while (hasChanged) {
    hasChanged = false;
    for (Value value : outsideOperands(group->ops)) {
      // What is scattered into stays outside: it is overwritten where the plan allows that.
      if (value != group->root->getOperand(0) && takeProducer(formation, group, value)) {
        hasChanged = true;
        break;
      }
    }
  }
}

} // namespace

void formScatters(Formation &formation, Block *block) {
  SmallVector<Operation *> roots;
  for (Operation &op : *block) {
    bool isRoot = formation.device().isGpu() && isa<tn::ScatterElementsOp, tn::ScatterNdOp>(op) &&
                  hasFewUpdates(formation.costs, &op);
    if (isRoot) {
      roots.push_back(&op);
    }
  }
  for (Operation *root : roots) {
    Group *group = formation.grouping.create(root, kSingle, root);
    takeProducers(formation, group);
    group->reason = group->ops.size() == 1
                        ? "this operation has no strategy that fuses"
                        : "a scatter; what it writes is computed where it is written";
  }
}

} // namespace tenon::dispatch
