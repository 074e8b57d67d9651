// The transforms of Winograd's minimal filtering in vectors of channels (graph/Winograd.h has the
// points and the transform of filters).
#pragma once

#include "mlir/IR/Builders.h"

namespace tenon::codegen::cpu {

using Vectors = llvm::SmallVector<mlir::Value>;

/// m + 2 inputs of a line to their m + 2 values.
Vectors transformInputs(mlir::OpBuilder &builder, mlir::Location location, const Vectors &inputs);

/// m + 2 sums of products to the m outputs of a line.
Vectors transformSums(mlir::OpBuilder &builder, mlir::Location location, const Vectors &sums);

} // namespace tenon::codegen::cpu
