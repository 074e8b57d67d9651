// Softmax, norms and reductions over trailing dims take elementwise neighbours with the same rows:
// a row is read once and kept in cache. Relies on the row fitting in the second-level cache with
// all its values.
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

bool rowsFit(const Formation &formation, Group *group, size_t rowDims) {
  if (formation.device().isGpu()) {
    return true; // a row that registers cannot hold is read again from the second-level cache
  }
  Value x = group->root->getOperand(0);
  tn::Dims dims = tn::getDims(x.getType());
  int64_t row = formation.costs.countOf(ArrayRef<AffineExpr>(dims).take_back(rowDims));
  int64_t values = group->ops.size() + 1;
  // What passes keep of narrow floats are f32.
  int64_t bytes = std::max(32u, getElementTypeOrSelf(x).getIntOrFloatBitWidth()) / 8;
  return row * values * bytes <= formation.costs.profile().cacheBytes;
}

bool readsGroup(Operation *op, Group *group) {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return llvm::is_contained(group->ops, operand.getDefiningOp());
  });
}

/// Why a producer cannot join a GPU's group: there also movement joins, and values of other dims
/// that are computed where they are read.
const Rule *refuseOnGpu(Formation &formation, Group *group, Operation *op, const tn::Dims &dims,
                        Operation *consumer) {
  bool isMove = isMovement(op, formation.device());
  if (!isElementwise(op) && !isMove) {
    return &kNotElementwise;
  }
  if (isMove && movesInnermost(op)) {
    return &kNotElementwise; // rows read with a stride
  }
  if (isMove && readsGroup(op, group)) {
    return &kMovementReadsInputs;
  }
  bool samePlace = consumer == group->root || isElementwise(consumer);
  return samePlace && tn::sameDims(resultDims(op), dims)
             ? nullptr
             : refuseInlining(formation, op, group->ops);
}

const Rule *refusalOf(Formation &formation, Group *group, Operation *op, const tn::Dims &dims,
                      Operation *consumer) {
  if (formation.grouping.groupOf(op)) {
    return isElementwise(op) ? &kOtherRegion : &kNotElementwise;
  }
  if (formation.device().isGpu() && op != consumer) {
    return refuseOnGpu(formation, group, op, dims, consumer);
  }
  if (!isElementwise(op)) {
    return &kNotElementwise;
  }
  return tn::sameDims(resultDims(op), dims) ? nullptr : &kDimsDiffer;
}

/// Tries to add `op`, a neighbour over the edge (producer, consumer).
bool tryAbsorb(Formation &formation, Group *group, Operation *op, const tn::Dims &dims,
               size_t rowDims, Operation *producer, Operation *consumer) {
  const Rule *rule = refusalOf(formation, group, op, dims, consumer);
  if (!rule && group->ops.size() >= kMaxOperations) {
    rule = &kRegionFull;
  } else if (!rule && !rowsFit(formation, group, rowDims)) {
    rule = &kRowTooLarge;
  } else if (!rule) {
    rule = op == producer ? refuseRegisters(formation, op, group->ops)
                          : refuseRegisters(formation, group->ops, op);
  }
  if (!rule) {
    rule = op == producer ? formation.grouping.absorbProducer(group, op)
                          : formation.grouping.absorbConsumer(group, op);
  }
  if (rule) {
    formation.refuse(producer, consumer, *rule);
  }
  return !rule;
}

void growProducers(Formation &formation, Group *group, size_t rowDims) {
  tn::Dims dims = tn::getDims(group->root->getOperand(0).getType());
  SmallVector<OpOperand *> open = {&group->root->getOpOperand(0)};
  while (!open.empty()) {
    OpOperand *edge = open.pop_back_val();
    Operation *producer = edge->get().getDefiningOp();
    if (!producer || staysOutside(producer) || llvm::is_contained(group->ops, producer)) {
      continue;
    }
    if (tryAbsorb(formation, group, producer, dims, rowDims, producer, edge->getOwner())) {
      for (OpOperand &operand : producer->getOpOperands()) {
        open.push_back(&operand);
      }
    }
  }
}

void growConsumers(Formation &formation, Group *group, size_t rowDims) {
  tn::Dims dims = resultDims(group->root);
  SmallVector<Operation *> open = {group->root};
  while (!open.empty()) {
    Operation *producer = open.pop_back_val();
    SmallVector<Operation *> users(producer->getUsers());
    llvm::sort(users,
               [&](Operation *a, Operation *b) { return formation.grouping.cameFirst(a, b); });
    for (Operation *user : users) {
      if (staysOutside(user) || llvm::is_contained(group->ops, user)) {
        continue;
      }
      if (tryAbsorb(formation, group, user, dims, rowDims, producer, user)) {
        open.push_back(user);
      }
    }
  }
}

/// On a GPU the other operands of consumers are computed where these read them.
void growSides(Formation &formation, Group *group, size_t rowDims) {
  tn::Dims dims = resultDims(group->root);
  SmallVector<Operation *> open(llvm::drop_begin(
      ArrayRef(group->ops), llvm::find(group->ops, group->root) - group->ops.begin() + 1));
  while (!open.empty()) {
    Operation *consumer = open.pop_back_val();
    for (Value operand : consumer->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      bool isSide = producer && producer->hasOneUse() && !staysOutside(producer) &&
                    !llvm::is_contained(group->ops, producer);
      if (isSide && tryAbsorb(formation, group, producer, dims, rowDims, producer, consumer)) {
        open.push_back(producer);
      }
    }
  }
}

} // namespace

size_t rowRank(Operation *op, const target::Target &device) {
  if (!op->hasTrait<tn::TnRowWise>() || op->getNumResults() != 1 ||
      !isFusedType(op->getResult(0).getType(), device) ||
      !isFusedType(op->getOperand(0).getType(), device)) {
    return 0;
  }
  size_t rank = cast<RankedTensorType>(op->getOperand(0).getType()).getRank();
  if (tn::SoftmaxOp softmax = dyn_cast<tn::SoftmaxOp>(op)) {
    return static_cast<size_t>(softmax.getAxis()) + 1 == rank ? 1 : 0;
  }
  if (tn::LayerNormOp norm = dyn_cast<tn::LayerNormOp>(op)) {
    return rank - norm.getAxis();
  }
  if (tn::RmsNormOp norm = dyn_cast<tn::RmsNormOp>(op)) {
    return rank - norm.getAxis();
  }
  tn::ReduceOp reduce = dyn_cast<tn::ReduceOp>(op);
  if (!reduce) {
    return 0;
  }
  ArrayRef<int64_t> axes = reduce.getAxes();
  for (auto [index, axis] : llvm::enumerate(axes)) {
    if (axis != static_cast<int64_t>(rank - axes.size() + index)) {
      return 0;
    }
  }
  return axes.size();
}

void formRows(Formation &formation, Block *block) {
  SmallVector<Operation *> roots;
  for (Operation &op : *block) {
    if (op.hasTrait<tn::TnRowWise>() && rowRank(&op, formation.device()) > 0 &&
        !formation.grouping.groupOf(&op)) {
      roots.push_back(&op);
    }
  }
  for (Operation *root : roots) {
    size_t rowDims = rowRank(root, formation.device());
    Group *group = formation.grouping.create(root, kRows, root);
    growProducers(formation, group, rowDims);
    growConsumers(formation, group, rowDims);
    if (formation.device().isGpu()) {
      growSides(formation, group, rowDims);
    }
    group->reason = group->ops.size() == 1
                        ? "one pass over each row, with no elementwise neighbour that could join"
                        : "one pass over each row; its elementwise neighbours have the same rows";
  }
}

} // namespace tenon::dispatch
