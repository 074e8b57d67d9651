// Selections by a whole block where the loops of codegen/common have one thread. Hand-built
// kernels; all places are i64. The true elements of a list are selected here.
#include "compiler/codegen/cuda/selection/Selection.h"

#include "compiler/codegen/common/Ranked.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/dispatch/Strategy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {

Value both(const ThreadBuilder &t, Value a, Value b) {
  return arith::AndIOp::create(t.builder, t.location, a, b);
}
Value isNot(const ThreadBuilder &t, Value a, Value b) {
  return arith::CmpIOp::create(t.builder, t.location, arith::CmpIPredicate::ne, a, b);
}
Value holds(const ThreadBuilder &t, Value bools, Value place) {
  Type byte = t.builder.getI8Type();
  Value loaded = t.load(byte, t.offset(bools, byte, place), 1);
  return isNot(t, loaded, t.like(loaded, 0));
}

namespace {

using Values = ThreadBuilder::Values;

/// Relies on operands being inputs. Results that do not leave the region get temporaries.
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

/// The places of the true elements in order, then zeros, and how many are true: each thread looks
/// at a part of the list, once to count and once to write.
RegionStep emitTruePositions(RegionBuilder &region, tn::TruePositionsOp op, const Ports &ports) {
  KernelShell shell(*region.kernels, region.symbol, ports.buffers, ports.reads, kSelectionThreads);
  ThreadBuilder t = shell.code();
  if (region.gpu.has(target::Feature::DependentLaunch)) {
    t.waitForPredecessors();
    t.launchDependents();
  }
  Type number = t.i64Type();
  Value bools = shell.buffer(0), positions = shell.buffer(1), total = shell.buffer(2);
  Value count = shell.size(tn::getDims(op.getX().getType())[0]);
  Value thread = t.wide(t.thread()), one = t.i64(1), none = t.i64(0);
  Value part = t.ceilDiv(count, kSelectionThreads);
  Value first = t.min(t.mul(thread, part), count), end = t.min(t.add(first, part), count);
  Value own = t.loop(first, end, one, none, [&](const ThreadBuilder &b, Value i, ValueRange sum) {
    return Values{b.add(sum[0], b.select(holds(b, bools, i), one, none))};
  })[0];
  // Running sums over the threads, by twice the distance in each step.
  Value shared = shell.shared();
  Value mine = t.offset(shared, number, thread);
  t.store(own, mine, 8);
  t.barrier();
  Value sum = own;
  for (int64_t distance = 1; distance < kSelectionThreads; distance *= 2) {
    Value isFar = t.isLess(thread, t.i64(distance));
    Value other = t.select(isFar, thread, t.sub(thread, t.i64(distance)));
    Value before = t.load(number, t.offset(shared, number, other), 8);
    sum = t.add(sum, t.select(isFar, none, before));
    t.barrier();
    t.store(sum, mine, 8);
    t.barrier();
  }
  t.loop(first, end, one, t.sub(sum, own),
         [&](const ThreadBuilder &b, Value i, ValueRange place) -> Values {
           Value isTrue = holds(b, bools, i);
           b.when(isTrue, [&](const ThreadBuilder &c) {
             c.store(i, c.offset(positions, number, place[0]), 8);
           });
           return {b.add(place[0], b.select(isTrue, one, none))};
         });
  Value all = t.load(number, t.offset(shared, number, kSelectionThreads - 1), 8);
  t.loop(t.add(all, thread), count, t.i64(kSelectionThreads), {},
         [&](const ThreadBuilder &b, Value i, ValueRange) -> Values {
           b.store(none, b.offset(positions, number, i), 8);
           return {};
         });
  t.when(t.isEqual(thread, none), [&](const ThreadBuilder &b) { b.store(all, total, 8); });
  return shell.finish(getAffineConstantExpr(1, number.getContext()), kSelectionThreads * 8);
}

} // namespace

namespace {

/// The region's selection; null if it has none that blocks do.
Operation *selectionOf(RegionBuilder &region) {
  Operation *op = region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  tn::TopKOp topK = dyn_cast_or_null<tn::TopKOp>(op);
  bool isSelection =
      isa_and_nonnull<tn::TruePositionsOp, tn::SelectBoxesOp>(op) || (topK && takesMany(topK));
  bool areInputs = isSelection && llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>);
  return areInputs ? op : nullptr;
}

Offer offerSelection(RegionBuilder &region) {
  if (!selectionOf(region)) {
    return Offer::refuse("it is no selection of true elements, of boxes or of many of a row");
  }
  return {dispatch::KernelChoice{kSelection.name.str(), {}},
          "its steps depend on each other: whole blocks do them together"};
}

LogicalResult emitSelection(RegionBuilder &region, const dispatch::KernelChoice &choice) {
  Operation *op = selectionOf(region);
  if (!op || !choice.parameters.empty()) {
    return failure();
  }
  Ports ports = portsOf(region, op);
  RegionStep step =
      isa<tn::TruePositionsOp>(op) ? emitTruePositions(region, cast<tn::TruePositionsOp>(op), ports)
      : isa<tn::SelectBoxesOp>(op) ? emitSelectBoxes(region, cast<tn::SelectBoxesOp>(op), ports)
                                   : emitSortedRows(region, cast<tn::TopKOp>(op), ports);
  region.code.steps.push_back(std::move(step));
  return success();
}

} // namespace

constexpr KernelFamily kSelection = {.name = "selection",
                                     .what = "block-wide selection: prefix sums of true elements, "
                                             "non-maximum suppression, bitonic sorting",
                                     .strategies = {dispatch::kSingle},
                                     .match = offerSelection,
                                     .configs = nullptr,
                                     .cost = nullptr,
                                     .emit = emitSelection};

} // namespace tenon::codegen::cuda
