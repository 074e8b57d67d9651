// Contractions and depthwise convolutions take the elementwise operations behind them: the epilogue
// runs on the tile while it is in registers. Relies on one value leaving the region, so a detour is
// taken only if it closes again.
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Operations tried beyond the last point where one value leaves the region.
constexpr size_t kLookAhead = 8;

bool allFused(Operation *op, const DeviceProfile &device) {
  auto fits = [&](Type type) { return isFusedType(type, device); };
  return llvm::all_of(op->getOperandTypes(), fits) && llvm::all_of(op->getResultTypes(), fits);
}

/// Why `user` cannot stand in the epilogue of a group; null if it can.
const Rule *refusalOf(Formation &formation, Operation *user, const tn::Dims &dims) {
  if (!isElementwise(user)) {
    return &kNotElementwise;
  }
  if (!tn::sameDims(resultDims(user), dims)) {
    return &kDimsDiffer;
  }
  if (!allFused(user, formation.device())) {
    return &kElementType;
  }
  return formation.grouping.groupOf(user) ? &kOtherRegion : nullptr;
}

/// The first user in the block that may join, or null.
Operation *nextCandidate(Formation &formation, Group *group, const tn::Dims &dims) {
  Operation *first = nullptr;
  for (Value value : escapingResults(group->ops)) {
    for (Operation *user : value.getUsers()) {
      Operation *producer = value.getDefiningOp();
      if (staysOutside(user) || llvm::is_contained(group->ops, user) ||
          formation.refusals.contains({producer, user})) {
        continue;
      }
      if (const Rule *rule = refusalOf(formation, user, dims)) {
        formation.refuse(producer, user, *rule);
      } else if (!first || formation.grouping.cameFirst(user, first)) {
        first = user;
      }
    }
  }
  return first;
}

void refuseAll(Formation &formation, Group *group, Operation *consumer, const Rule &rule) {
  for (Value operand : consumer->getOperands()) {
    if (llvm::is_contained(group->ops, operand.getDefiningOp())) {
      formation.refuse(operand.getDefiningOp(), consumer, rule);
    }
  }
}

void growEpilogue(Formation &formation, Group *group) {
  tn::Dims dims = resultDims(group->root);
  size_t closed = group->ops.size();
  while (Operation *user = nextCandidate(formation, group, dims)) {
    if (group->ops.size() >= std::min(closed + kLookAhead, kMostOperations)) {
      refuseAll(formation, group, user, kRegionFull);
      break;
    }
    if (const Rule *rule = formation.grouping.absorbConsumer(group, user)) {
      refuseAll(formation, group, user, *rule);
      continue;
    }
    if (escapingResults(group->ops).size() == 1) {
      closed = group->ops.size();
    }
  }
  SmallVector<Operation *> dropped(ArrayRef<Operation *>(group->ops).drop_front(closed));
  formation.grouping.truncate(group, closed);
  for (Operation *op : dropped) {
    refuseAll(formation, group, op, kSecondResult);
  }
}

} // namespace

bool isDepthwise(tn::ConvOp conv) {
  ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  return conv.getGroups() > 1 && weight[1] == 1;
}

bool isContractionRoot(Operation *op, const DeviceProfile &device) {
  if (isa<tn::MatmulOp>(op)) {
    return allFused(op, device);
  }
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
  return conv && allFused(op, device) && conv.getChannelsLast() &&
         isa_and_nonnull<tn::WeightOp, tn::ConstantOp, tn::UnpackOp>(
             conv.getWeight().getDefiningOp()) &&
         (!device.isGpu() || isDepthwise(conv) || isLibraryRoot(op));
}

void formContractions(Formation &formation, Block *block) {
  SmallVector<Operation *> roots;
  for (Operation &op : *block) {
    if (isContractionRoot(&op, formation.device())) {
      roots.push_back(&op);
    }
  }
  for (Operation *root : roots) {
    tn::ConvOp conv = dyn_cast<tn::ConvOp>(root);
    bool depthwise = conv && isDepthwise(conv);
    Group *group = formation.grouping.create(root, depthwise ? kDepthwise : kContraction, root);
    for (Value operand : root->getOperands()) {
      Operation *definer = operand.getDefiningOp();
      if (isa_and_nonnull<tn::UnpackOp>(definer)) {
        formation.grouping.absorbProducer(group, definer);
      }
    }
    size_t alone = group->ops.size();
    if (formation.device().isGpu() && !depthwise) {
      growLibraryEpilogue(formation, group);
      group->reason = group->ops.size() == alone ? "one call of a library, nothing behind it joined"
                                                 : "one call of a library with its epilogue";
      continue;
    }
    growEpilogue(formation, group);
    group->reason = group->ops.size() == alone
                        ? "a contraction, with no elementwise operation behind it that could join"
                        : "a contraction; the operations behind it run on its tiles in registers";
  }
}

} // namespace tenon::dispatch
