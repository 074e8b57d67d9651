// Selections by whole blocks where the loops of codegen/common have one thread. Hand-built kernels;
// all places are i64.
#include "compiler/codegen/cuda/selection/Selection.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/dispatch/Strategy.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {

Value holds(const ThreadBuilder &t, Value bools, Value place) {
  Type byte = t.builder.getI8Type();
  Value loaded = t.load(byte, t.offset(bools, byte, place), 1);
  return isNot(t, loaded, t.constantOfType(loaded, 0));
}

Ports portsOf(RegionBuilder &region, Operation *op) {
  Ports ports;
  for (Value operand : op->getOperands()) {
    ports.buffers.push_back(cast<BlockArgument>(operand).getArgNumber());
  }
  ports.reads = ports.buffers.size();
  OperandRange outputs = op->getBlock()->getTerminator()->getOperands();
  for (Value result : op->getResults()) {
    auto found = llvm::find(outputs, result);
    if (found != outputs.end()) {
      ports.buffers.push_back(region.output(found - outputs.begin()));
      continue;
    }
    AffineExpr count = tn::elementCount(op->getContext(), tn::getDims(result.getType()));
    int64_t bytes = byteSize(storageType(getElementTypeOrSelf(result)));
    ports.buffers.push_back(region.addTemporary(count * bytes));
  }
  return ports;
}

namespace {

/// The region's selection; null if it has none that blocks do.
Operation *selectionOf(RegionBuilder &region) {
  Operation *op = region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  bool isSelection = isa_and_nonnull<tn::TruePositionsOp, tn::SelectBoxesOp>(op);
  bool areInputs = isSelection && llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>);
  return areInputs ? op : nullptr;
}

FamilyMatch matchSelection(RegionBuilder &region) {
  Operation *op = selectionOf(region);
  return op ? FamilyMatch::take(op, {kSelection.name.str(), {}},
                                "its steps depend on each other: blocks do them together")
            : FamilyMatch::refuse("it is no selection of true elements or of boxes");
}

LogicalResult emitSelection(RegionBuilder &region, Operation *const &op,
                            const dispatch::KernelChoice &) {
  Ports ports = portsOf(region, op);
  if (tn::TruePositionsOp positions = dyn_cast<tn::TruePositionsOp>(op)) {
    emitTruePositions(region, positions, ports);
  } else {
    emitSelectBoxes(region, cast<tn::SelectBoxesOp>(op), ports);
  }
  return success();
}

} // namespace

constexpr KernelFamily kSelection = {.name = "selection",
                                     .what =
                                         "selection by whole blocks: prefix sums of true elements, "
                                         "non-maximum suppression",
                                     .strategies = {dispatch::kSingle},
                                     .needs = {"true_positions", "select_boxes"},
                                     .match = matchSelection,
                                     .emit = on<emitSelection>,
                                     .order = noSums<RegionBuilder>};

} // namespace tenon::codegen::cuda
