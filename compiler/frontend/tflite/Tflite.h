// The importer of TensorFlow Lite models: a file becomes a `tn` module, or one error, or the list
// of everything in it that Tenon lacks. Relies on the `tn` and `func` dialects being loaded.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/graph/WeightStore.h"
#include "support/Result.h"

namespace tenon::tflite {

/// Imports a file. Weights enter `store` as views of the mapped file, which the store keeps alive.
/// Errors name the tensor or the operator.
Result<frontend::ImportResult> importTflite(const std::string &path,
                                            const frontend::ImportOptions &options,
                                            mlir::MLIRContext &context, tn::WeightStore &store);

/// The same for bytes in memory, which begin at a multiple of 8 and live as long as the store.
Result<frontend::ImportResult> importModel(Bytes bytes, const frontend::ImportOptions &options,
                                           mlir::MLIRContext &context, tn::WeightStore &store);

} // namespace tenon::tflite
