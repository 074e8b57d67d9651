// Bytes between the regions of quantized models: what widens them to floats runs where they are
// read, not where they are stored. Relies on kernels of contractions computing what stands beside
// them.
#include "compiler/dispatch/FormRegions.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

bool isByte(Value value) { return getElementTypeOrSelf(value).isInteger(8); }

/// The only operand with the dims of the result, where others are parameters; else null.
Value onlyWholeOperand(Operation *op) {
  Value whole;
  for (Value operand : op->getOperands()) {
    if (tn::sameDims(tn::getDims(operand.getType()), resultDims(op))) {
      if (whole) {
        return {};
      }
      whole = operand;
    }
  }
  return whole;
}

} // namespace

SmallVector<Operation *> sidesOf(Formation &formation, ArrayRef<Operation *> ops) {
  SmallVector<Operation *> sides;
  SmallVector<Operation *> open(ops);
  while (!open.empty()) {
    for (Value operand : open.pop_back_val()->getOperands()) {
      Operation *side = operand.getDefiningOp();
      bool isSide = side && isElementwise(side) && side->hasOneUse() &&
                    !formation.grouping.groupOf(side) &&
                    tn::sameDims(resultDims(side), resultDims(ops.back()));
      if (isSide) {
        sides.insert(sides.begin(), side);
        open.push_back(side);
      }
    }
  }
  return sides;
}

size_t endsWithBytes(const Group &group, ArrayRef<size_t> closed) {
  Value last = group.ops.back()->getResult(0);
  if (isByte(last) || !llvm::all_of(last.getUsers(), isElementwise)) {
    return closed.size();
  }
  for (size_t i = closed.size(); i-- > 1;) {
    Operation *op = group.ops[closed[i] - 1];
    Value from = isElementwise(op) ? onlyWholeOperand(op) : Value();
    if (!from || closed[i - 1] + 1 != closed[i]) {
      break;
    }
    if (isByte(from)) {
      return i;
    }
  }
  return closed.size();
}

SmallVector<Operation *> wideningOf(ArrayRef<Operation *> sides) {
  SmallVector<Operation *> widening;
  for (Operation *side : sides) {
    Value from = onlyWholeOperand(side);
    if (from && (isByte(from) || llvm::is_contained(widening, from.getDefiningOp()))) {
      widening.push_back(side);
    }
  }
  return widening;
}

void takeWidening(Formation &formation, Group *group, size_t count) {
  SmallVector<Operation *> sides = sidesOf(formation, ArrayRef(group->ops).drop_front(count));
  for (Operation *side : llvm::reverse(wideningOf(sides))) {
    if (group->ops.size() >= kMaxOperations || formation.grouping.absorbProducer(group, side)) {
      return;
    }
  }
}

} // namespace tenon::dispatch
