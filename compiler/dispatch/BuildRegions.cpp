// Moves the operations of each group into a tn.region and carries one-element constants along.
// Relies on groups being contiguous, so that the region can stand where the group stood.
#include "compiler/dispatch/BuildRegions.h"

#include "compiler/dispatch/OpKinds.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// The root's name first, then those of the rest, as import named the nodes.
Location fusedLocation(ArrayRef<Operation *> ops) {
  SmallVector<Location> locations;
  for (Operation *op : ops) {
    locations.push_back(op->getLoc());
  }
  return FusedLoc::get(ops.front()->getContext(), locations);
}

/// Whether a one-element constant goes into the region with its readers. The kernels of
/// contractions and attention address their operands as buffers, which such a constant does not
/// have: there only elementwise operations get one.
bool isCarriedAlong(Value value, ArrayRef<Operation *> ops, StringRef strategy) {
  if (!isScalarConstant(value.getDefiningOp())) {
    return false;
  }
  // The runtime reads a count from its buffer, and so does a hand-built kernel.
  bool readsBuffers =
      strategy == kContraction || strategy == kAttention ||
      isa<tn::RecurrenceOp, tn::HistogramOp, tn::TakeFirstOp, tn::SelectBoxesOp, tn::TopKOp,
          tn::TruePositionsOp, tn::PagedWriteOp, tn::SampleOp, tn::CustomOp>(ops.front());
  return !readsBuffers || llvm::all_of(value.getUsers(), [&](Operation *user) {
    return isElementwise(user) || !llvm::is_contained(ops, user);
  });
}

/// What leaves the region.
SmallVector<Value> outputsOf(ArrayRef<Operation *> ops) {
  SmallVector<Value> outputs = escapingResults(ops);
  if (outputs.empty()) {
    // An operation that stays though nobody reads it: others name the symbol that it binds.
    llvm::append_range(outputs, ops.back()->getResults());
  }
  return outputs;
}

void buildRegion(const Group &group, int64_t index, llvm::StringRef target) {
  SmallVector<Value> outputs = outputsOf(group.ops);
  tn::RegionOp region = createRegion(group.ops, group.strategy, target);
  region.setRecord(index);
  for (auto [output, result] : llvm::zip_equal(outputs, region.getResults())) {
    output.replaceAllUsesWith(result);
  }
  for (Operation *op : llvm::reverse(group.ops)) {
    op->erase();
  }
}

} // namespace

tn::RegionOp createRegion(ArrayRef<Operation *> ops, StringRef strategy, StringRef target) {
  SmallVector<Value> inputs;
  SmallVector<Operation *> constants;
  for (Value operand : outsideOperands(ops)) {
    if (isCarriedAlong(operand, ops, strategy)) {
      constants.push_back(operand.getDefiningOp());
    } else {
      inputs.push_back(operand);
    }
  }
  SmallVector<Value> outputs = outputsOf(ops);
  OpBuilder builder(ops.back());
  builder.setInsertionPointAfter(ops.back());
  tn::RegionOp region = tn::RegionOp::create(
      builder, fusedLocation(ops), TypeRange(ValueRange(outputs)), inputs,
      builder.getStringAttr(target), builder.getStringAttr(strategy), IntegerAttr());

  Block *body = builder.createBlock(&region.getBody());
  IRMapping mapping;
  for (Value input : inputs) {
    mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
  }
  for (Operation *constant : constants) {
    builder.clone(*constant, mapping);
  }
  for (Operation *op : ops) {
    builder.clone(*op, mapping);
  }
  SmallVector<Value> results;
  for (Value output : outputs) {
    results.push_back(mapping.lookup(output));
  }
  tn::YieldOp::create(builder, region.getLoc(), results);
  return region;
}

void buildRegions(const Grouping &grouping, llvm::StringRef target) {
  for (auto [index, group] : llvm::enumerate(grouping.inOrder())) {
    buildRegion(*group, static_cast<int64_t>(index), target);
  }
}

} // namespace tenon::dispatch
