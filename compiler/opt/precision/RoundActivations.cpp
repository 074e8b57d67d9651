// `--allow int8-activations`: the rows of products by weights of few bits are rounded to signed 8
// bits with a scale for each block of the weights, so that a CPU multiplies integers. Relies on
// low-bit-weights having made the weights rows of blocks, and on no pass following.
#include "compiler/graph/TnRare.h"
#include "compiler/opt/ConvertPrecision.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::opt {

void roundActivations(ModuleOp module, PrecisionRecord &record) {
  static const PrecisionRule rule{
      "int8-activations",
      "--allow int8-activations: rows in signed 8 bits, one scale for each block"};
  module.walk([&](tn::MatmulOp product) {
    tn::DecodeRowsOp weights = product.getB().getDefiningOp<tn::DecodeRowsOp>();
    Value rows = product.getA();
    if (!weights || product.getTransposeA() || !getElementTypeOrSelf(rows).isF32()) {
      return;
    }
    // Each product has its own, which goes into its kernel.
    OpBuilder builder(product);
    Value rounded = tn::RoundBlocksOp::create(builder, product.getLoc(), rows.getType(), rows,
                                              static_cast<int64_t>(weights.getBlock()));
    product.getAMutable().assign(rounded);
    record.approximated.push_back({product.getLoc(), "matmul", rule});
  });
}

} // namespace tenon::opt
