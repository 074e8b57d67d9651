// The one door for model files: each is imported by the frontend that knows its beginning.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/graph/WeightStore.h"
#include "support/Result.h"

namespace tenon::frontend {

enum class Format : uint8_t { Onnx, Pt2, Gguf, Folder, Tflite };

/// By the beginning of a file; what no other frontend knows is for ONNX's reader to refuse.
Format formatOf(Bytes beginning);
Result<Format> formatOf(const std::string &path);

/// Imports a file. Weights enter `store` as views of the mapped file, which the store keeps alive.
Result<ImportResult> importModel(const std::string &path, const ImportOptions &options,
                                 mlir::MLIRContext &context, tn::WeightStore &store);

} // namespace tenon::frontend
