// The order of dispatch: form groups, record, build regions. Kernels are chosen, and weights laid
// out for them, once codegen has been asked about each region. Relies on one model function a
// module, with one block.
#include "compiler/dispatch/Dispatch.h"

#include "compiler/dispatch/BuildRegions.h"
#include "compiler/dispatch/Explain.h"
#include "compiler/dispatch/WeightLayout.h"
#include "compiler/graph/TensorInfo.h"
#include "compiler/graph/WideReason.h"
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

/// Sums over nothing are zeros, with or without the passes of opt: no kernel has blocks of none.
void replaceEmptyProducts(Block *block) {
  for (Operation &op : llvm::make_early_inc_range(*block)) {
    tn::AttentionOp attention = dyn_cast<tn::AttentionOp>(op);
    bool isZero = attention ? tn::isEmpty(attention.getV())
                            : isa<tn::MatmulOp>(op) &&
                                  llvm::any_of(op.getOperandTypes(),
                                               [](Type type) { return tn::isEmpty(type); });
    if (!isZero) {
      continue;
    }
    OpBuilder builder(&op);
    RankedTensorType type = cast<RankedTensorType>(op.getResult(0).getType());
    RankedTensorType scalar = RankedTensorType::get({}, type.getElementType());
    Value zero = tn::ConstantOp::create(
        builder, op.getLoc(), scalar,
        DenseElementsAttr::get(scalar, builder.getZeroAttr(type.getElementType())));
    op.getResult(0).replaceAllUsesWith(tn::BroadcastOp::create(builder, op.getLoc(), type, zero));
    op.erase();
  }
}

} // namespace

LogicalResult dispatch(ModuleOp module, const target::Target &profile, KernelTimes kernelTimes,
                       Records &records) {
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  if (functions.size() != 1 || !functions.front().getBody().hasOneBlock()) {
    return module.emitError("dispatch needs one function with one block");
  }
  Block *block = &functions.front().getBody().front();
  if (failed(checkDims(block))) {
    return failure();
  }
  replaceEmptyProducts(block);
  eraseDead(block);
  markPackable(block, profile);
  CostModel costs(module, profile);
  Formation formation{Grouping(block), costs, kernelTimes, Refusals()};
  if (profile.isGpu()) {
    formExchanges(formation, block);
  }
  formContractions(formation, block);
  formAttention(formation, block);
  if (profile.isGpu()) {
    formColumns(formation, block);
  }
  formRows(formation, block);
  formScatters(formation, block);
  formElementwise(formation, block);
  formSingles(formation, block);
  formBundles(formation);
  records = explain(formation, tn::SymbolList(module).symbols(), profile.device());
  block->walk([](Operation *op) {
    op->removeAttr(tn::kWideReason);
    op->removeAttr(tn::kPriced);
  });
  buildRegions(formation.grouping, profile.device());
  return success();
}

} // namespace tenon::dispatch
