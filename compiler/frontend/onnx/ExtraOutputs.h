// Imports a model with inner values as outputs: how the results of layers are seen. A value that is
// an output is computed as the model says, whatever is fused around it.
#pragma once

#include "compiler/frontend/onnx/Onnx.h"

namespace tenon::onnx {

/// The names of the results of the model's nodes that are not outputs already, in the model's
/// order.
Result<std::vector<std::string>> innerValues(Bytes model);

/// As importOnnx, with `extraOutputs` as outputs after the model's own. "*" stands for all inner
/// values; of those, what is no tensor of numbers is left out. A name that nothing in the model has
/// is an error.
Result<ImportResult> importWithExtraOutputs(const std::string &path,
                                            const std::vector<std::string> &extraOutputs,
                                            const ImportOptions &options,
                                            mlir::MLIRContext &context, tn::WeightStore &store);

} // namespace tenon::onnx
