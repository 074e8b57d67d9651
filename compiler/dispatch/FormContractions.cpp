// Products and convolutions take the operations around them: the norm of their rows before, the
// elementwise operations behind them, as far as the fastest kernel that computes all of it gains by
// that. What is legal is decided here, what a kernel can do and how long it takes by the kernel
// families. Relies on one value leaving the region, so a detour is taken only if it closes again.
#include "compiler/dispatch/BuildRegions.h"
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Float8.h"
#include "compiler/graph/NarrowIntegers.h"
#include "compiler/graph/TnRare.h"

#include <cmath>

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Operations tried beyond the last point where one value leaves the region.
constexpr size_t kLookAhead = 8;
/// Of the least predicted time, what counts as no more.
constexpr double kAsGood = 1.03;
/// Sums of the same times, in another order.
constexpr double kSameTime = 1 + 1e-9;

bool allFused(Operation *op, const target::Target &device) {
  auto fits = [&](Type type) { return isFusedType(type, device); };
  return llvm::all_of(op->getOperandTypes(), fits) && llvm::all_of(op->getResultTypes(), fits);
}

/// Types that code behind a product of integers computes with.
bool areNumbers(Operation *op) {
  auto isNumber = [](Type tensor) {
    Type element = cast<RankedTensorType>(tensor).getElementType();
    return element.isIntOrFloat() && element.getIntOrFloatBitWidth() <= 32;
  };
  return llvm::all_of(op->getOperandTypes(), isNumber) &&
         llvm::all_of(op->getResultTypes(), isNumber);
}

/// Predicted microseconds of some operations of a group as one kernel.
double timeOf(Formation &formation, const Group &group, ArrayRef<Operation *> ops) {
  tn::RegionOp region = createRegion(ops, group.strategy, formation.device().device());
  double microseconds = formation.kernelTimes(region);
  region.erase();
  return microseconds;
}

/// Whether the kernel also widens bytes that its end alone reads.
bool widensInside(Formation &formation, const Group &group) {
  return !formation.device().isGpu() || tn::isByteProduct(group.root);
}

/// Predicted microseconds of the first `count` operations of a group as one kernel, the others as a
/// loop behind it, and what is computed for them alone.
double timeOfCut(Formation &formation, const Group &group, size_t count) {
  ArrayRef<Operation *> head = ArrayRef(group.ops).take_front(count);
  ArrayRef<Operation *> tail = ArrayRef(group.ops).drop_front(count);
  SmallVector<Operation *> loop = sidesOf(formation, head), kernel;
  if (widensInside(formation, group)) {
    kernel = wideningOf(loop);
    llvm::erase_if(loop, [&](Operation *side) { return llvm::is_contained(kernel, side); });
  }
  llvm::append_range(kernel, head);
  double microseconds = timeOf(formation, group, kernel);
  if (!loop.empty()) {
    microseconds += formation.costs.costOf(loop).microseconds;
  }
  if (!tail.empty()) {
    loop = sidesOf(formation, tail);
    loop.append(tail.begin(), tail.end());
    microseconds += formation.costs.costOf(loop).microseconds;
  }
  return microseconds;
}

/// Whether `op` adds a tensor and all that reads it is one operation on whole rows, which may still
/// take it in.
bool isResidualForRows(Formation &formation, Operation *op) {
  bool isResidual = isa<tn::AddOp>(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
                      return tn::sameDims(tn::getDims(operand.getType()), resultDims(op));
                    });
  return formation.device().isGpu() && isResidual && op->hasOneUse() &&
         rowRank(*op->user_begin(), formation.device()) != 0 &&
         !formation.grouping.groupOf(*op->user_begin());
}

/// Why `user` cannot stand in the epilogue of a group; null if it can.
const Rule *refusalOf(Formation &formation, const Group &group, Operation *user,
                      const tn::Dims &dims) {
  if (!isElementwise(user)) {
    return &kNotElementwise;
  }
  if (!tn::sameDims(resultDims(user), dims)) {
    return &kDimsDiffer;
  }
  bool isGpu = formation.device().isGpu();
  if (isGpu ? !areNumbers(user) : !allFused(user, formation.device())) {
    return &kElementType;
  }
  if (formation.grouping.groupOf(user)) {
    return &kOtherRegion;
  }
  return isResidualForRows(formation, user) ? &kAddedInRows : nullptr;
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
      if (const Rule *rule = refusalOf(formation, *group, user, dims)) {
        formation.refuse(producer, user, *rule);
      } else if (!first || formation.grouping.cameFirst(user, first)) {
        first = user;
      }
    }
  }
  return first;
}

void refuseAll(Formation &formation, Group *group, Operation *consumer, const Refusal &refusal) {
  for (Value operand : consumer->getOperands()) {
    if (llvm::is_contained(group->ops, operand.getDefiningOp())) {
      formation.refuse(operand.getDefiningOp(), consumer, refusal);
    }
  }
}

/// Gives up the operations of a group behind the first `count`.
void giveUp(Formation &formation, Group *group, size_t count, const Refusal &refusal) {
  SmallVector<Operation *> dropped(ArrayRef<Operation *>(group->ops).drop_front(count));
  formation.grouping.truncate(group, count);
  for (Operation *op : dropped) {
    refuseAll(formation, group, op, refusal);
  }
}

/// Takes consumers with these dims as far as they may be taken. Gives the numbers of operations
/// with which one value leaves the region, of which the first is `alone`.
SmallVector<size_t> takeConsumers(Formation &formation, Group *group, const tn::Dims &dims,
                                  size_t alone) {
  SmallVector<size_t> closed = {alone};
  while (Operation *user = nextCandidate(formation, group, dims)) {
    if (group->ops.size() >= std::min(closed.back() + kLookAhead, kMaxOperations)) {
      refuseAll(formation, group, user, kRegionFull);
      break;
    }
    if (const Rule *rule = formation.grouping.absorbConsumer(group, user)) {
      refuseAll(formation, group, user, *rule);
      continue;
    }
    if (escapingResults(group->ops).size() == 1) {
      closed.push_back(group->ops.size());
    }
  }
  giveUp(formation, group, closed.back(), kSecondResult);
  return closed;
}

/// Leaves a group as many of its operations as are the fastest with the rest in a kernel behind it;
/// of numbers that are as good the largest, for then less waits in between.
void cutWhereFastest(Formation &formation, Group *group, ArrayRef<size_t> closed) {
  if (closed.size() == 1) {
    return;
  }
  SmallVector<double> times;
  for (size_t count : closed) {
    times.push_back(timeOfCut(formation, *group, count));
  }
  double least = *llvm::min_element(times);
  size_t best = std::isinf(least) ? 0 : closed.size() - 1;
  while (times[best] > kAsGood * least) {
    --best;
  }
  giveUp(formation, group, closed[best], Refusal(kTakesLonger, times.back(), times[best]));
}

/// Leaves a group what stands before the last bytes that it makes: sums never leave a kernel where
/// bytes can. False if it makes none.
bool endAtBytes(Formation &formation, Group *group, ArrayRef<size_t> closed) {
  for (size_t count : llvm::reverse(closed)) {
    if (getElementTypeOrSelf(group->ops[count - 1]->getResult(0)).isInteger(8)) {
      giveUp(formation, group, count, kWidens);
      return true;
    }
  }
  return false;
}

/// A slice of one half of the root's columns, and all of its rows.
bool isHalf(Operation *user, tn::MatmulOp root) {
  tn::SliceOp slice = dyn_cast<tn::SliceOp>(user);
  tn::Dims whole = tn::getDims(root.getType());
  if (!slice || llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; })) {
    return false;
  }
  tn::Dims dims = tn::getDims(slice.getType());
  ArrayRef<AffineExpr> starts = slice.getStarts().getResults();
  std::optional<int64_t> start = tn::constantDim(starts.back());
  std::optional<int64_t> columns = tn::constantDim(whole.back());
  return columns && tn::sameDims(ArrayRef(dims).drop_back(), ArrayRef(whole).drop_back()) &&
         tn::constantDim(dims.back()) == *columns / 2 && *columns % 2 == 0 &&
         (start == 0 || start == *columns / 2);
}

/// Takes the slices that part a merged product in two, so that what joins both halves again runs on
/// the tile: the gate of a feed-forward block. False if anything else reads the product.
bool takeHalves(Formation &formation, Group *group) {
  tn::MatmulOp root = dyn_cast<tn::MatmulOp>(group->root);
  SmallVector<Operation *> users(group->root->getUsers());
  auto joins = [&](Operation *user) {
    return isHalf(user, root) && !formation.grouping.groupOf(user);
  };
  if (!root || !formation.device().isGpu() || users.empty() || !llvm::all_of(users, joins)) {
    return false;
  }
  size_t alone = group->ops.size();
  for (Operation *user : users) {
    if (formation.grouping.absorbConsumer(group, user)) {
      formation.grouping.truncate(group, alone);
      return false;
    }
  }
  return true;
}

/// Takes the operation on whole rows that alone the product's rows come from, where a kernel that
/// computes both is faster.
void takeNorm(Formation &formation, Group *group) {
  tn::MatmulOp root = dyn_cast<tn::MatmulOp>(group->root);
  Operation *norm = root && formation.device().isGpu() ? root.getA().getDefiningOp() : nullptr;
  bool mayJoin = norm && norm->hasOneUse() && rowRank(norm, formation.device()) != 0 &&
                 !formation.grouping.groupOf(norm) &&
                 llvm::all_of(norm->getOperands().drop_front(), [](Value parameter) {
                   return isa_and_nonnull<tn::WeightOp, tn::ConstantOp>(parameter.getDefiningOp());
                 });
  if (!mayJoin) {
    return;
  }
  SmallVector<Operation *> both{norm};
  llvm::append_range(both, group->ops);
  double fused = timeOf(formation, *group, both);
  double apart =
      formation.costs.costOf({norm}).microseconds + timeOf(formation, *group, group->ops);
  if (fused <= kSameTime * apart) {
    formation.grouping.absorbProducer(group, norm);
  }
}

/// Takes what a product of 8-bit floats reads them through (graph/Float8.h).
void takeFloat8Operands(Formation &formation, Group *group) {
  SmallVector<Value> open(group->root->getOperands());
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (isa_and_nonnull<tn::MulOp, tn::DecodeOp>(op) &&
        !formation.grouping.absorbProducer(group, op) && isa<tn::MulOp>(op)) {
      open.push_back(op->getOperand(0));
    }
  }
}

/// Takes what a product of small integers reads them through (graph/NarrowIntegers.h).
void takeNarrowOperands(Formation &formation, Group *group) {
  if (tn::isFloat8Product(group->root)) {
    return takeFloat8Operands(formation, group);
  }
  if (!tn::isNarrowProduct(group->root)) {
    return;
  }
  for (unsigned i : {0u, 1u}) {
    Operation *cast = group->root->getOperand(i).getDefiningOp();
    bool isTaken = cast && cast->hasOneUse() && !formation.grouping.groupOf(cast) &&
                   !formation.grouping.absorbProducer(group, cast);
    Operation *transpose = isTaken ? cast->getOperand(0).getDefiningOp() : nullptr;
    if (isa_and_nonnull<tn::TransposeOp>(transpose) && i == 1 && isa<tn::ConvOp>(group->root) &&
        transpose->hasOneUse() && !formation.grouping.groupOf(transpose)) {
      formation.grouping.absorbProducer(group, transpose);
    }
  }
}

/// Takes what a product reads weights of few bits through, whose kernel takes them apart, and what
/// rounds its rows on the way.
void takeDecodedWeights(Formation &formation, Group *group) {
  tn::MatmulOp root = dyn_cast<tn::MatmulOp>(group->root);
  tn::DecodeRowsOp rows = root ? root.getB().getDefiningOp<tn::DecodeRowsOp>() : tn::DecodeRowsOp();
  if (!rows) {
    return;
  }
  if (!rows->hasOneUse()) {
    OpBuilder builder(root);
    rows = cast<tn::DecodeRowsOp>(builder.clone(*rows));
    root.getBMutable().assign(rows.getMatrix());
  }
  formation.grouping.absorbProducer(group, rows);
  if (tn::RoundBlocksOp rounded = root.getA().getDefiningOp<tn::RoundBlocksOp>()) {
    formation.grouping.absorbProducer(group, rounded);
  }
}

void takeEpilogue(Formation &formation, Group *group) {
  size_t alone = group->ops.size();
  tn::Dims dims = resultDims(group->root);
  if (takeHalves(formation, group)) {
    dims = resultDims(group->ops.back());
  }
  SmallVector<size_t> closed = takeConsumers(formation, group, dims, alone);
  bool widens = widensInside(formation, *group);
  if (size_t ends = widens ? endsWithBytes(*group, closed) : closed.size(); ends < closed.size()) {
    closed.truncate(ends);
    giveUp(formation, group, closed.back(), kWidens);
  }
  bool isOfBytesOnGpu = formation.device().isGpu() && tn::isByteProduct(group->root);
  if (!isOfBytesOnGpu || !endAtBytes(formation, group, closed)) {
    cutWhereFastest(formation, group, closed);
  }
  if (widens) {
    takeWidening(formation, group, alone);
  }
  group->reason = group->ops.size() == 1
                      ? "a contraction; nothing around it joined"
                      : "a contraction; what is around it runs with it, which is the fastest";
}

bool isConstant(Value weight) {
  return isa_and_nonnull<tn::WeightOp, tn::ConstantOp>(weight.getDefiningOp());
}

/// A convolution whose rows of channels a GPU's kernels multiply, by computed weights too.
bool isProductOnGpu(tn::ConvOp conv) {
  return !conv.getType().getElementType().isF64() && !isDepthwise(conv);
}

} // namespace

bool isDepthwise(tn::ConvOp conv) {
  ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  return conv.getGroups() > 1 && weight[1] == 1;
}

/// Whether a CPU's products take such elements.
static bool isProductElement(Type element) {
  return element.isF32() || element.isF16() || element.isBF16() || element.isInteger(32);
}

bool isContractionRoot(Operation *op, const target::Target &device) {
  if (device.isGpu() && (tn::isNarrowProduct(op) || tn::isByteProduct(op))) {
    return true;
  }
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
  if (!conv && !isa<tn::MatmulOp>(op)) {
    return false;
  }
  bool isTaken = device.isGpu() ? allFused(op, device)
                                : isProductElement(getElementTypeOrSelf(op->getResult(0)));
  if (!isTaken || !conv) {
    return isTaken;
  }
  if (!conv.getChannelsLast()) {
    return false;
  }
  bool isConstantDepthwise = isDepthwise(conv) && isConstant(conv.getWeight());
  return !device.isGpu() || isConstantDepthwise || isProductOnGpu(conv);
}

void formContractions(Formation &formation, Block *block) {
  SmallVector<Group *> groups;
  for (Operation &op : *block) {
    if (isContractionRoot(&op, formation.device())) {
      tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
      groups.push_back(formation.grouping.create(
          &op, conv && isDepthwise(conv) ? kDepthwise : kContraction, &op));
    }
  }
  for (Group *group : groups) {
    takeNarrowOperands(formation, group);
    takeDecodedWeights(formation, group);
  }
  // A norm in front of a product cannot take the residual that another product could add.
  for (Group *group : groups) {
    takeNorm(formation, group);
  }
  for (Group *group : groups) {
    takeEpilogue(formation, group);
  }
}

} // namespace tenon::dispatch
