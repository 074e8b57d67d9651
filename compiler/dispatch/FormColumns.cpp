// Norms that are spelled out: reductions over the same dims of tensors of the same dims, with the
// elementwise operations between, before and behind them, are one region, whose rows or columns one
// kernel reads once; so are reductions over columns of the same values, and softmax over a dim with
// others behind it. Relies on devices that are GPUs; a single reduction stays by itself, where more
// threads share it.
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// What all operations of the region share.
struct Columns {
  tn::Dims wide, narrow, kept; ///< of all elements, and of columns without and with dims of 1
  SmallVector<int64_t> axes;
};

/// Columns that are reduced together, as the last dim, at most, and elements of a sector's columns:
/// as a cluster of blocks has threads and registers (codegen/cuda/rows/Tuning.h).
constexpr int64_t kMostTogether = 128, kMostOfCluster = int64_t(1) << 18, kSectorColumns = 16;

/// The number of axes before a last one that other dims stand in front of; 0 if that is not one of
/// few columns that a cluster holds, or all axes follow each other.
size_t axesBeforeGroup(tn::Dims dims, ArrayRef<int64_t> axes) {
  size_t front = axes.size() - 1;
  bool isApart = axes.size() > 1 && axes[front] > axes[front - 1] + 1 &&
                 axes[front] + 1 == static_cast<int64_t>(dims.size());
  if (!isApart || !llvm::all_of(ArrayRef(dims).drop_front(axes.front()), tn::constantDim)) {
    return 0;
  }
  int64_t together = *tn::constantDim(dims.back()), elements = std::max(together, kSectorColumns);
  for (int64_t axis : axes.take_front(front)) {
    elements *= *tn::constantDim(dims[axis]);
  }
  return together > 1 && together <= kMostTogether && elements <= kMostOfCluster ? front : 0;
}

/// The dims over which a reduction goes, if they follow each other but for a last one, or softmax,
/// if others lie behind; else none.
SmallVector<int64_t> columnAxes(Operation *op, const target::Target &device) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      !isFusedType(op->getResult(0).getType(), device) ||
      !isFusedType(op->getOperand(0).getType(), device)) {
    return {};
  }
  int64_t rank = cast<RankedTensorType>(op->getOperand(0).getType()).getRank();
  SmallVector<int64_t> axes;
  if (tn::SoftmaxOp softmax = dyn_cast<tn::SoftmaxOp>(op)) {
    axes.push_back(softmax.getAxis());
  } else if (tn::ReduceOp reduce = dyn_cast<tn::ReduceOp>(op)) {
    llvm::append_range(axes, reduce.getAxes());
  }
  size_t front = axes.empty() ? 0 : axesBeforeGroup(tn::getDims(op->getOperand(0).getType()), axes);
  for (size_t i = 1; i < (front == 0 ? axes.size() : front); ++i) {
    if (axes[i] != axes[i - 1] + 1) {
      return {};
    }
  }
  // The sum of everything is work for many blocks.
  bool isOfRows = isa<tn::SoftmaxOp>(op) && !axes.empty() && axes.back() + 1 == rank;
  bool isOfAll = axes.size() == static_cast<size_t>(rank);
  return isOfRows || isOfAll ? SmallVector<int64_t>() : axes;
}

Columns columnsOf(Operation *root, ArrayRef<int64_t> axes) {
  Columns columns;
  columns.axes.assign(axes.begin(), axes.end());
  columns.wide = tn::getDims(root->getOperand(0).getType());
  for (auto [i, dim] : llvm::enumerate(columns.wide)) {
    bool isReduced = llvm::is_contained(axes, static_cast<int64_t>(i));
    columns.kept.push_back(isReduced ? getAffineConstantExpr(1, root->getContext()) : dim);
    if (!isReduced) {
      columns.narrow.push_back(dim);
    }
  }
  return columns;
}

class ColumnsGroup {
public:
  ColumnsGroup(Formation &formation, Operation *root, ArrayRef<int64_t> axes)
      : formation(formation), columns(columnsOf(root, axes)) {
    collect(root);
    collectMoments(root);
  }

  /// Whether no dims lie behind.
  bool isOfRows() const {
    return columns.axes.back() + 1 == static_cast<int64_t>(columns.wide.size()) &&
           axesBeforeGroup(columns.wide, columns.axes) == 0;
  }
  /// Whether one kernel reads what several would.
  bool isWorthIt() const {
    return llvm::any_of(members, [](Operation *op) { return isa<tn::SoftmaxOp>(op); }) ||
           (reductions > 0 && hasReadAgain) || hasMoments;
  }
  void form(Operation *root);

private:
  bool hasDims(Operation *op, const tn::Dims &dims) const {
    return tn::sameDims(resultDims(op), dims);
  }
  bool isMember(Operation *op) const { return llvm::is_contained(members, op); }
  /// Whether the operation belongs to such a region by itself.
  bool fits(Operation *op);
  void collect(Operation *root);
  void collectMoments(Operation *root);

  Formation &formation;
  Columns columns;
  SmallVector<Operation *> members;
  size_t reductions = 0;
  /// Whether an operation of all elements reads what a reduction made.
  bool hasReadAgain = false;
  /// Whether another reduction reads what the root does, with elementwise operations before it.
  bool hasMoments = false;
};

bool ColumnsGroup::fits(Operation *op) {
  if (formation.grouping.groupOf(op) || staysOutside(op) || op->getNumResults() != 1) {
    return false;
  }
  if (isElementwise(op)) {
    return hasDims(op, columns.wide) || hasDims(op, columns.narrow) || hasDims(op, columns.kept);
  }
  return ArrayRef(columnAxes(op, formation.device())) == ArrayRef(columns.axes) &&
         tn::sameDims(tn::getDims(op->getOperand(0).getType()), columns.wide);
}

/// The root and what it feeds.
void ColumnsGroup::collect(Operation *root) {
  SmallVector<Operation *> open = {root};
  while (!open.empty() && members.size() < kMaxOperations) {
    Operation *op = open.pop_back_val();
    if (isMember(op)) {
      continue;
    }
    members.push_back(op);
    reductions += isElementwise(op) ? 0 : 1;
    for (Operation *user : op->getUsers()) {
      if (fits(user)) {
        hasReadAgain |= hasDims(user, columns.wide) && !hasDims(op, columns.wide);
        open.push_back(user);
      }
    }
  }
}

/// Reductions over columns, beside the root, of the values that it is made of.
void ColumnsGroup::collectMoments(Operation *root) {
  Operation *source = root->getOperand(0).getDefiningOp();
  if (isOfRows() || !isa<tn::ReduceOp>(root) || !source || !isElementwise(source) ||
      !fits(source) || !hasDims(source, columns.wide)) {
    return;
  }
  auto add = [&](Operation *op) {
    if (!isMember(op) && members.size() < kMaxOperations) {
      members.push_back(op);
    }
  };
  auto addReduction = [&](Operation *op) {
    bool isOther = isa<tn::ReduceOp>(op) && op != root && fits(op);
    if (isOther) {
      add(op);
      hasMoments = true;
    }
    return isOther;
  };
  for (Operation *user : source->getUsers()) {
    bool isBetween = isElementwise(user) && fits(user) && hasDims(user, columns.wide);
    if (!addReduction(user) && isBetween && llvm::any_of(user->getUsers(), addReduction)) {
      add(user);
    }
  }
  if (hasMoments) {
    add(source);
  }
}

void ColumnsGroup::form(Operation *root) {
  Grouping &grouping = formation.grouping;
  llvm::sort(members, [&](Operation *a, Operation *b) { return grouping.cameFirst(a, b); });
  Group *group = grouping.create(root, kRows, root);
  auto isInside = [&](Operation *op) { return llvm::is_contained(group->ops, op); };
  auto producerOf = [](Value operand) { return operand.getDefiningOp(); };
  auto join = [&](Operation *producer, Operation *consumer, bool isProducer) {
    const Rule *rule = group->ops.size() < kMaxOperations ? nullptr : &kRegionFull;
    if (!rule && isOfRows()) {
      rule = isProducer ? refuseRegisters(formation, producer, group->ops)
                        : refuseRegisters(formation, group->ops, consumer);
    }
    if (!rule) {
      rule = isProducer ? grouping.absorbProducer(group, producer)
                        : grouping.absorbConsumer(group, consumer);
    }
    if (rule) {
      formation.refuse(producer, consumer, *rule);
    }
    return !rule;
  };
  SmallVector<Operation *> open = {root};
  Operation *source = root->getOperand(0).getDefiningOp();
  if (hasMoments && join(source, root, /*isProducer=*/true)) {
    open.push_back(source);
  }
  for (Operation *op : members) {
    auto producers = llvm::map_range(op->getOperands(), producerOf);
    auto edge = llvm::find_if(producers, isInside);
    if (!isInside(op) && edge != producers.end() && join(*edge, op, /*isProducer=*/false)) {
      open.push_back(op);
    }
  }
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    for (Operation *producer : llvm::map_range(op->getOperands(), producerOf)) {
      bool isSide = producer && !isInside(producer) && fits(producer);
      if (isSide && join(producer, op, /*isProducer=*/true)) {
        open.push_back(producer);
      }
    }
  }
  group->reason = isOfRows() ? "reductions over the same rows with what they read and feed"
                             : "reductions over the same dims with what they read and feed: one "
                               "pass over a few columns";
}

} // namespace

void formColumns(Formation &formation, Block *block) {
  SmallVector<Operation *> roots;
  for (Operation &op : *block) {
    if (!columnAxes(&op, formation.device()).empty()) {
      roots.push_back(&op);
    }
  }
  for (Operation *root : roots) {
    if (formation.grouping.groupOf(root)) {
      continue;
    }
    ColumnsGroup columns(formation, root, columnAxes(root, formation.device()));
    if (columns.isWorthIt()) {
      columns.form(root);
    }
  }
}

} // namespace tenon::dispatch
