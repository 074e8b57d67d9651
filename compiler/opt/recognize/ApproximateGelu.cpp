// `--allow tanh-gelu`: GELU of 16-bit floats by its tanh form, which libraries have as the end of a
// product. The two differ by at most 4.8e-4, next to a spacing of float16 of 4.9e-4 to 2e-3 where
// they do.
#include "compiler/graph/Tn.h"
#include "compiler/opt/ConvertPrecision.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::opt {

void approximateGelu(ModuleOp module, PrecisionRecord &record) {
  static const PrecisionRule rule{"tanh-gelu",
                                  "--allow tanh-gelu: the tanh form, off by at most 4.8e-4"};
  module.walk([&](tn::GeluOp gelu) {
    bool isNarrow = getElementTypeOrSelf(gelu.getType()).getIntOrFloatBitWidth() == 16;
    if (isNarrow && !gelu.getApproximate()) {
      gelu.setApproximate(true);
      record.approximated.push_back({gelu.getLoc(), "gelu", rule});
    }
  });
}

} // namespace tenon::opt
