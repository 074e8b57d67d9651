// The order of dispatch: pack weights, form groups, record, build regions.
// Relies on one model function a module, with one block.
#include "compiler/dispatch/Dispatch.h"

#include "compiler/dispatch/BuildRegions.h"
#include "compiler/dispatch/Explain.h"
#include "compiler/dispatch/PackWeights.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Region formation compares dims, so each must be known.
LogicalResult checkDims(Block *block) {
  for (Operation &op : *block) {
    for (Type type : op.getResultTypes()) {
      if (llvm::is_contained(tn::getDims(type), AffineExpr())) {
        return op.emitError("a dimension of ") << type << " is not known before running";
      }
    }
  }
  return success();
}

/// A region needs a value that somebody reads.
void eraseDead(Block *block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
}

} // namespace

LogicalResult dispatch(ModuleOp module, const DeviceProfile &profile, Records &records) {
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  if (functions.size() != 1 || !functions.front().getBody().hasOneBlock()) {
    return module.emitError("dispatch needs one function with one block");
  }
  Block *block = &functions.front().getBody().front();
  if (failed(checkDims(block))) {
    return failure();
  }
  eraseDead(block);
  packWeights(block, profile);
  CostModel costs(module, profile);
  Formation formation{.grouping = Grouping(block), .costs = costs, .refusals = Refusals()};
  formContractions(formation, block);
  formAttention(formation, block);
  formRows(formation, block);
  formScatters(formation, block);
  formElementwise(formation, block);
  formSingles(formation, block);
  formBundles(formation);
  records = explain(formation, profile.target);
  buildRegions(formation.grouping, profile.target);
  return success();
}

} // namespace tenon::dispatch
