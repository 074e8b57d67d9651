// Elementwise and movement operations of equal dims become one loop: intermediate values stay in
// registers. Relies on movement operations reading only inputs of the region, so that each element
// is read once.
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/target/Float8.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// The dims of the values that leave the group.
tn::Dims groupDims(Group *group) { return resultDims(group->ops.back()); }

/// Whether a movement operation of one group reads from the other.
bool movementReads(Formation &formation, Group *consumers, Group *producers) {
  return llvm::any_of(consumers->ops, [&](Operation *op) {
    return isMovement(op, formation.device()) &&
           llvm::any_of(op->getOperands(), [&](Value operand) {
             return llvm::is_contained(producers->ops, operand.getDefiningOp());
           });
  });
}

/// Why the groups around an edge stay apart; null if they were merged.
const Rule *tryMerge(Formation &formation, Group *producers, Group *consumers) {
  if (producers->strategy != kElementwise) {
    return &kOtherRegion;
  }
  const Rule *rule = nullptr;
  if (!tn::sameDims(groupDims(producers), groupDims(consumers))) {
    rule = &kDimsDiffer;
  } else if (movementReads(formation, consumers, producers)) {
    rule = &kMovementReadsInputs;
  }
  if (rule && formation.device().isGpu()) {
    rule = refuseInlining(formation, producers->ops, consumers->ops);
  } else if (!rule) {
    rule = refuseRegisters(formation, producers->ops, consumers->ops);
  }
  if (rule) {
    return rule;
  }
  return producers->ops.size() + consumers->ops.size() > kMaxOperations
             ? &kRegionFull
             : formation.grouping.merge(producers, consumers);
}

/// Merges the group of `op` with those of its producers where that is legal.
void mergeProducers(Formation &formation, Operation *op) {
  for (Value operand : op->getOperands()) {
    Operation *definer = operand.getDefiningOp();
    Group *producers = definer ? formation.grouping.groupOf(definer) : nullptr;
    Group *own = formation.grouping.groupOf(op);
    if (!producers || producers == own || producers->strategy != kElementwise) {
      continue;
    }
    if (const Rule *rule = tryMerge(formation, producers, own)) {
      formation.refuse(definer, op, *rule);
    }
  }
}

/// Gives each of these readers a copy of its own.
void copyForReaders(Operation *op, ArrayRef<OpOperand *> uses) {
  for (OpOperand *use : uses) {
    Operation *copy = op->clone();
    use->getOwner()->getBlock()->getOperations().insert(Block::iterator(use->getOwner()), copy);
    use->set(copy->getResult(0));
  }
  if (op->use_empty()) {
    op->erase();
  }
}

SmallVector<Operation *> sharedOps(Block *block, llvm::function_ref<bool(Operation *)> isCheap) {
  SmallVector<Operation *> shared;
  for (Operation &op : *block) {
    if (!op.use_empty() && !op.hasOneUse() && isCheap(&op)) {
      shared.push_back(&op);
    }
  }
  return shared;
}

/// A cheap value with several readers is computed again in each: reading a smaller operand costs
/// less than writing and reading the value.
void recomputeBroadcasts(Formation &formation, Block *block) {
  auto isCheap = [&](Operation *op) {
    return isa<tn::BroadcastOp>(op) &&
           formation.costs.bytesOf(op->getOperand(0)) < formation.costs.bytesOf(op->getResult(0));
  };
  for (Operation *op : sharedOps(block, isCheap)) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getUses()) {
      bool joins = isElementwise(use.getOwner()) && !formation.grouping.groupOf(use.getOwner()) &&
                   tn::sameDims(resultDims(use.getOwner()), resultDims(op));
      if (joins) {
        uses.push_back(&use);
      }
    }
    copyForReaders(op, uses);
  }
}

/// What a kernel of a GPU reads slices of lies in memory, and slices of it are but other places:
/// each reader has its own, as where rotary embeddings read their pairs in both orders.
void recomputeSlices(Formation &formation, Block *block) {
  auto isOpen = [&](Operation *op) {
    return (isElementwise(op) || isMovement(op, formation.device())) &&
           !formation.grouping.groupOf(op);
  };
  auto isCheap = [&](Operation *op) {
    if (!isa<tn::SliceOp>(op) || !isOpen(op) || !llvm::all_of(op->getUsers(), isOpen)) {
      return false;
    }
    Operation *source = op->getOperand(0).getDefiningOp();
    while (isa_and_nonnull<tn::ReshapeOp>(source)) {
      source = source->getOperand(0).getDefiningOp();
    }
    return !source || !isOpen(source);
  };
  if (!formation.device().isGpu()) {
    return;
  }
  for (Operation *op : sharedOps(block, isCheap)) {
    SmallVector<OpOperand *> uses =
        llvm::map_to_vector(op->getUses(), [](OpOperand &use) { return &use; });
    copyForReaders(op, uses);
  }
}

} // namespace

bool isElementwise(Operation *op) { return op->hasTrait<tn::TnElementwise>(); }

bool isMovement(Operation *op, const target::Target &device) {
  // An index for each element, looked up and checked again by each reader, took 17 us of a kernel
  // that writes 1,024,000 elements on an H200, as a kernel of its own 1.
  bool looksUpEach = isa<tn::GatherElementsOp, tn::GatherNdOp>(op);
  return op->hasTrait<tn::TnMovement>() && !staysOutside(op) &&
         (device.isGpu() ? !looksUpEach : isa<tn::TransposeOp, tn::SliceOp, tn::BroadcastOp>(op));
}

tn::Dims resultDims(Operation *op) { return tn::getDims(op->getResult(0).getType()); }

bool isFusedType(Type tensor, const target::Target &device) {
  Type element = cast<RankedTensorType>(tensor).getElementType();
  bool isFloat8 = isa<Float8E4M3FNType>(element) && target::hasFloat8(device);
  return !device.isGpu() || isFloat8 ||
         (isa<FloatType>(element) && element.getIntOrFloatBitWidth() >= 16);
}

void formElementwise(Formation &formation, Block *block) {
  recomputeBroadcasts(formation, block);
  recomputeSlices(formation, block);
  SmallVector<Operation *> open;
  for (Operation &op : *block) {
    bool fits = isElementwise(&op) || isMovement(&op, formation.device());
    if (fits && !formation.grouping.groupOf(&op)) {
      open.push_back(&op);
    }
  }
  for (Operation *op : open) {
    formation.grouping.create(op, kElementwise, nullptr);
    mergeProducers(formation, op);
  }
  for (Group *group : formation.grouping.inOrder()) {
    if (group->strategy == kElementwise) {
      group->reason = group->ops.size() == 1 ? "an elementwise or movement operation alone"
                                             : "elementwise operations of equal dims in one loop";
    }
  }
}

void formSingles(Formation &formation, Block *block) {
  for (Operation &op : *block) {
    if (staysOutside(&op) || formation.grouping.groupOf(&op)) {
      continue;
    }
    Group *group = formation.grouping.create(&op, kSingle, &op);
    group->reason = "this operation has no strategy that fuses";
  }
}

} // namespace tenon::dispatch
