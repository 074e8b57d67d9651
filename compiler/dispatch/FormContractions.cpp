// Contractions and depthwise convolutions take the elementwise operations behind them: the epilogue
// runs on the tile while it is in registers. Relies on one value leaving the region, so a detour is
// taken only if it closes again.
#include "compiler/dispatch/FewRows.h"
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/LargeProducts.h"
#include "compiler/dispatch/SmallProducts.h"
#include "compiler/dispatch/Strategy.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Operations tried beyond the last point where one value leaves the region.
constexpr size_t kLookAhead = 8;

bool allFused(Operation *op, const target::Target &device) {
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

/// Takes consumers with these dims. One value leaves the region with its first `closed` operations.
void growEpilogue(Formation &formation, Group *group, const tn::Dims &dims, size_t closed) {
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
  int64_t columns = *tn::constantDim(whole.back());
  return tn::sameDims(ArrayRef(dims).drop_back(), ArrayRef(whole).drop_back()) &&
         tn::constantDim(dims.back()) == columns / 2 && columns % 2 == 0 &&
         (start == 0 || start == columns / 2);
}

/// Takes the slices that part a merged product in two, so that what joins both halves again runs on
/// the tile: the gate of a feed-forward block. False if anything else reads the product.
bool takeHalves(Formation &formation, Group *group) {
  tn::MatmulOp root = cast<tn::MatmulOp>(group->root);
  SmallVector<Operation *> users(root->getUsers());
  auto joins = [&](Operation *user) {
    return isHalf(user, root) && !formation.grouping.groupOf(user);
  };
  if (users.empty() || !llvm::all_of(users, joins)) {
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

/// Takes the norm before a streamed product that alone reads it: each block norms the few rows.
void takeNorm(Formation &formation, Group *group) {
  tn::MatmulOp root = cast<tn::MatmulOp>(group->root);
  tn::RmsNormOp norm = root.getA().getDefiningOp<tn::RmsNormOp>();
  if (norm && norm->hasOneUse() && isStreamedNorm(norm) && !formation.grouping.groupOf(norm) &&
      (!norm.getScale() || staysOutside(norm.getScale().getDefiningOp()))) {
    formation.grouping.absorbProducer(group, norm);
  }
}

void formStreamed(Formation &formation, Group *group) {
  size_t alone = group->ops.size();
  takeNorm(formation, group);
  size_t closed = group->ops.size();
  tn::Dims dims = resultDims(group->root);
  if (takeHalves(formation, group)) {
    dims = resultDims(group->ops.back());
  }
  growEpilogue(formation, group, dims, closed);
  group->reason =
      group->ops.size() == alone
          ? "few rows: the weights stream once, nothing around the product joined"
          : "few rows: the weights stream once, what is around the product runs with it";
}

/// A product of few rows whose weights lie as the kernel streams them.
bool isStreamedRoot(Operation *root) {
  tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(root);
  return matmul && isStreamed(matmul) && hasWeightsLaidOut(matmul);
}

} // namespace

bool isDepthwise(tn::ConvOp conv) {
  ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
  return conv.getGroups() > 1 && weight[1] == 1;
}

bool isContractionRoot(Operation *op, const target::Target &device) {
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
    if (formation.device().isGpu() && isStreamedRoot(root)) {
      formStreamed(formation, group);
      continue;
    }
    if (formation.device().isGpu() && !depthwise) {
      growLibraryEpilogue(formation, group);
      group->reason =
          isSmallRoot(root, formation.device())
              ? "a small product: its weights are on their way before its rows are there"
          : isOwnProduct(group->ops)   ? "a large product with what no library's call ends with"
          : group->ops.size() == alone ? "one call of a library, nothing behind it joined"
                                       : "one call of a library with its epilogue";
      continue;
    }
    growEpilogue(formation, group, resultDims(root), alone);
    group->reason = group->ops.size() == alone
                        ? "a contraction, with no elementwise operation behind it that could join"
                        : "a contraction; the operations behind it run on its tiles in registers";
  }
}

} // namespace tenon::dispatch
