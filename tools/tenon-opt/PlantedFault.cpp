// A pass that is wrong on purpose, with which tests prove that a numeric check catches such a pass.
// Relies on nobody but tests linking it.
#include "tools/tenon-opt/PlantedFault.h"

#include "compiler/graph/Tn.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// The first operation of that kind, or null.
template <typename Op> Op first(ModuleOp module) {
  Op result;
  module.walk([&](Op op) {
    result = op;
    return WalkResult::interrupt();
  });
  return result;
}

} // namespace

LogicalResult plantedFault(ModuleOp module, tn::WeightStore &) {
  if (tn::GeluOp gelu = first<tn::GeluOp>(module)) {
    gelu.setApproximate(!gelu.getApproximate());
    return success();
  }
  if (tn::ReluOp relu = first<tn::ReluOp>(module)) {
    OpBuilder builder(relu);
    relu.replaceAllUsesWith(tn::LeakyReluOp::create(builder, relu.getLoc(), relu.getType(),
                                                    relu.getX(), builder.getF64FloatAttr(0.01))
                                .getResult());
    relu.erase();
    return success();
  }
  if (tn::AddOp sum = first<tn::AddOp>(module)) {
    OpBuilder builder(sum);
    sum.replaceAllUsesWith(
        tn::SubOp::create(builder, sum.getLoc(), sum.getType(), sum.getA(), sum.getB())
            .getResult());
    sum.erase();
  }
  return success();
}

} // namespace tenon::opt
