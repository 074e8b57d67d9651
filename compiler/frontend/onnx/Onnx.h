// The ONNX importer: a model file becomes a `tn` module, or one error, or the list of everything in
// it that Tenon lacks. Relies on the `tn` and `func` dialects being loaded into the context.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/graph/WeightStore.h"
#include "support/Result.h"

namespace tenon::onnx {

/// The versions of the default domain that import.
inline constexpr int64_t kOldestOpset = 1;
inline constexpr int64_t kNewestOpset = 27;

// Symbols, sizes and the words about inputs are the same for every frontend.
using namespace frontend;

/// Imports a file. Weights enter `store` as views of the mapped file, which the store keeps alive.
/// Errors have the numbers TN02nn; each names the node or tensor.
Result<ImportResult> importOnnx(const std::string &path, const ImportOptions &options,
                                mlir::MLIRContext &context, tn::WeightStore &store);

/// Imports a model in memory, which must live as long as the store. External data is looked for in
/// `folder`, and refused if that is empty.
Result<ImportResult> importOnnx(Bytes model, const std::string &folder,
                                const ImportOptions &options, mlir::MLIRContext &context,
                                tn::WeightStore &store);

} // namespace tenon::onnx
