// Attention. On a GPU it reads and writes through strides, so the slices and transposes that only
// choose which part of a tensor an operand is, and in which order, join its region and move
// nothing.
#include "compiler/dispatch/BuildRegions.h"
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Float8.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Strides say all of it: a transpose, or a slice that skips no element.
bool isView(Operation *op) {
  if (tn::SliceOp slice = dyn_cast_or_null<tn::SliceOp>(op)) {
    return llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
  }
  return isa_and_nonnull<tn::TransposeOp>(op);
}

/// Whether the columns of heads would lie apart, where tensor cores want them side by side: then a
/// kernel of its own turns them around.
bool partsColumns(Operation *view) {
  Type element = getElementTypeOrSelf(view->getResult(0).getType());
  return movesInnermost(view) && (element.isF16() || element.isBF16());
}

/// Takes in the views behind an operand; one that others read too is made again for this region.
void takeViews(Formation &formation, Group *group, OpOperand &operand) {
  OpOperand *edge = &operand;
  while (isView(edge->get().getDefiningOp()) && group->ops.size() < kMaxOperations) {
    Operation *view = edge->get().getDefiningOp();
    if (partsColumns(view)) {
      return;
    }
    if (!view->hasOneUse()) {
      Operation *copy = view->clone();
      Operation *front = group->ops.front();
      front->getBlock()->getOperations().insert(Block::iterator(front), copy);
      edge->set(copy->getResult(0));
      view = copy;
    }
    if (const Rule *rule = formation.grouping.absorbProducer(group, view)) {
      formation.refuse(view, edge->getOwner(), *rule);
      return;
    }
    edge = &view->getOpOperand(0);
  }
}

/// The transpose of the result that keeps the features innermost.
void takeTranspose(Formation &formation, Group *group) {
  Operation *root = group->root;
  tn::TransposeOp transpose =
      root->hasOneUse() ? dyn_cast<tn::TransposeOp>(*root->getUsers().begin()) : tn::TransposeOp();
  if (!transpose || transpose.getPermutation().back() != 3) {
    return;
  }
  if (const Rule *rule = formation.grouping.absorbConsumer(group, transpose)) {
    formation.refuse(root, transpose, *rule);
  }
}

/// Takes what makes codes of 8-bit floats of the result where a kernel stores them.
void takeCodes(Formation &formation, Group *group) {
  Operation *last = group->ops.back();
  Operation *next = last->hasOneUse() ? *last->user_begin() : nullptr;
  tn::MulOp scaled = dyn_cast_or_null<tn::MulOp>(next);
  if (scaled && !(tn::splatNumber(scaled.getB()) && scaled->hasOneUse())) {
    return;
  }
  tn::EncodeOp encode = dyn_cast_or_null<tn::EncodeOp>(scaled ? *scaled->user_begin() : next);
  if (!encode || !isFusedType(encode.getType(), formation.device())) {
    return;
  }
  size_t alone = group->ops.size();
  for (Operation *op : {scaled.getOperation(), encode.getOperation()}) {
    if (op && formation.grouping.absorbConsumer(group, op)) {
      return formation.grouping.truncate(group, alone);
    }
  }
  tn::RegionOp region = createRegion(group->ops, group->strategy, formation.device().device());
  bool isComputed = std::isfinite(formation.kernelTimes(region));
  region.erase();
  if (!isComputed) {
    formation.grouping.truncate(group, alone);
  }
}

/// The writes to the pages of keys and of values that attention reads are one kernel.
void joinWrites(Formation &formation, tn::PagedAttentionOp attention) {
  tn::PagedWriteOp keys = attention.getKeys().getDefiningOp<tn::PagedWriteOp>(),
                   values = attention.getValues().getDefiningOp<tn::PagedWriteOp>();
  if (!keys || !values || keys.getSlots() != values.getSlots() ||
      formation.grouping.groupOf(keys) || formation.grouping.groupOf(values)) {
    return;
  }
  bool isFirst = formation.grouping.cameFirst(keys, values);
  Operation *first = isFirst ? keys : values, *second = isFirst ? values : keys;
  Group *group = formation.grouping.create(first, kSingle, first);
  Group *other = formation.grouping.create(second, kSingle, second);
  group->reason = other->reason = "a write to pages is compiled alone";
  if (!formation.grouping.merge(group, other)) {
    group->reason = "keys and values are written to their pages by one kernel";
  }
}

} // namespace

void formAttention(Formation &formation, Block *block) {
  SmallVector<tn::PagedAttentionOp> paged(block->getOps<tn::PagedAttentionOp>());
  for (tn::PagedAttentionOp root : paged) {
    Group *group = formation.grouping.create(root, kAttention, root);
    group->reason = "attention over pages is compiled alone";
    if (formation.device().isGpu()) {
      joinWrites(formation, root);
    }
  }
  SmallVector<tn::AttentionOp> roots(block->getOps<tn::AttentionOp>());
  for (tn::AttentionOp root : roots) {
    Group *group = formation.grouping.create(root, kAttention, root);
    group->reason = "attention is compiled alone, tiled over keys";
    if (!formation.device().isGpu()) {
      continue;
    }
    for (OpOperand *operand : {&root.getQMutable(), &root.getKMutable(), &root.getVMutable()}) {
      takeViews(formation, group, *operand);
    }
    takeTranspose(formation, group);
    takeCodes(formation, group);
    group->reason = "attention, tiled over keys; it reads and writes slices and transposes of its "
                    "operands by strides";
  }
}

} // namespace tenon::dispatch
