// Tells from a region's body and strategy whether it reads an operand only where it writes.
// Relies on codegen keeping to that: elementwise kernels by position, scatters by a copy first.
#include "compiler/plan/Overwrite.h"

#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Shape.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Sizes.h"

using namespace mlir;

namespace tenon::plan {

bool mayWriteOver(tn::RegionOp region, unsigned number) {
  Value input = region.getInputs()[number];
  BlockArgument argument = region.getBody().getArgument(number);
  RankedTensorType type = cast<RankedTensorType>(region.getResult(0).getType());
  if (region.getNumResults() != 1 || dtypeOf(input.getType()) != dtypeOf(type) ||
      !tn::sameDims(tn::getDims(input.getType()), tn::getDims(type))) {
    return false;
  }
  auto reads = [&](Value other) { return storageOf(other) == storageOf(input); };
  if (llvm::count_if(region.getInputs(), reads) != 1) {
    return false;
  }
  if (region.getStrategy() == dispatch::kElementwise) {
    return llvm::all_of(argument.getUsers(), [](Operation *user) {
      return user->hasTrait<tn::TnElementwise>() || isa<tn::YieldOp>(user);
    });
  }
  Operation *scatter = argument.hasOneUse() ? *argument.getUsers().begin() : nullptr;
  return isa_and_present<tn::ScatterElementsOp, tn::ScatterNdOp>(scatter) &&
         scatter->getOperand(0) == argument && isa<tn::YieldOp>(*scatter->getUsers().begin());
}

} // namespace tenon::plan
