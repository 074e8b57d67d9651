// Scales and zero points of quantized models become weights: kernels that differ in nothing else
// are one kernel then, compiled once, where each had its own numbers in its code.
#include "compiler/opt/Constants.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/precision/IntegerOperands.h"

using namespace mlir;

namespace tenon::opt {

namespace {

bool hasBytes(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        bool isOfBytes = llvm::any_of(op->getResultTypes(), [](Type type) {
          return isa<RankedTensorType>(type) && isByte(getElementTypeOrSelf(type));
        });
        return isOfBytes ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

bool isParameter(Value value) {
  Type element = getElementTypeOrSelf(value);
  return value.getDefiningOp<tn::ConstantOp>() && tensorType(value).getRank() == 0 &&
         (element.isF32() || element.isInteger(32));
}

} // namespace

LogicalResult shareParameters(ModuleOp module, tn::WeightStore &weights) {
  if (!hasBytes(module)) {
    return success();
  }
  Constants constants(weights);
  OpBuilder builder(module.getContext());
  module.walk([&](Operation *op) {
    if (!isa<tn::MulOp, tn::DivOp, tn::AddOp, tn::SubOp>(op)) {
      return;
    }
    builder.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands()) {
      if (isParameter(operand.get())) {
        std::string id =
            weights.addOwned("parameter", constants.bytes(operand.get()), "pass share-parameters");
        operand.set(tn::WeightOp::create(builder, op->getLoc(), operand.get().getType(), id));
      }
    }
  });
  return success();
}

} // namespace tenon::opt
