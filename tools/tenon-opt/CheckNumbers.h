// Compares what a function computes before and after a pass, by the reference on seeded inputs.
// Relies on small shapes: a test's graph, not a model.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "compiler/reference/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tools {

/// Gives every weight that the store lacks seeded values in [0.5, 1.5) (integers 0 or 1).
void fillWeights(mlir::ModuleOp module, tn::WeightStore &weights);

/// The results of each function of the module on seeded inputs, all symbols at small values.
Result<std::vector<reference::Tensor>> evaluateSeeded(mlir::ModuleOp module,
                                                      tn::WeightStore &weights);

/// Says how the results differ, or nothing: by more than 1e-4 of the largest magnitude, and more
/// for 16-bit types.
std::string difference(llvm::ArrayRef<reference::Tensor> before,
                       llvm::ArrayRef<reference::Tensor> after);

} // namespace tenon::tools
