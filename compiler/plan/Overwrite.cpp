// Tells from a region's body and strategy whether it reads an operand only where it writes.
// Relies on codegen keeping to that: elementwise kernels by position, ends of products on tiles,
// scatters by a copy first.
#include "compiler/plan/Overwrite.h"

#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/TnRare.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Sizes.h"

using namespace mlir;

namespace tenon::plan {
namespace {

/// Whether every element of a region's result depends on this value at its own place only: a GPU's
/// regions may move values that they compute.
bool isReadInPlace(Value value) {
  SmallVector<Value> open = {value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    for (Operation *user : open.pop_back_val().getUsers()) {
      if (isa<tn::YieldOp>(user) || !seen.insert(user).second) {
        continue;
      }
      if (!user->hasTrait<tn::TnElementwise>()) {
        return false;
      }
      open.push_back(user->getResult(0));
    }
  }
  return true;
}

} // namespace

bool mayWriteOver(tn::RegionOp region, unsigned number, bool readsAtEnds, Value output) {
  bool hasOne = region.getNumResults() == 1;
  if (!output && !hasOne) {
    return false;
  }
  Value input = region.getInputs()[number];
  BlockArgument argument = region.getBody().getArgument(number);
  output = output ? output : region.getResult(0);
  if (dtypeOf(input.getType()) != dtypeOf(output.getType()) ||
      !tn::sameDims(tn::getDims(input.getType()), tn::getDims(output.getType()))) {
    return false;
  }
  auto reads = [&](Value other) { return storageOf(other) == storageOf(input); };
  if (llvm::count_if(region.getInputs(), reads) != 1) {
    return false;
  }
  if (region.getStrategy() == dispatch::kElementwise || readsAtEnds) {
    return hasOne && isReadInPlace(argument);
  }
  Value result = region.getBody().front().getTerminator()->getOperand(
      cast<OpResult>(output).getResultNumber());
  Operation *scatter = argument.hasOneUse() ? *argument.getUsers().begin() : nullptr;
  return isa_and_present<tn::ScatterElementsOp, tn::ScatterNdOp, tn::PagedWriteOp>(scatter) &&
         scatter->getOperand(0) == argument && scatter->getResult(0) == result;
}

} // namespace tenon::plan
