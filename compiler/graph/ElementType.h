// The element types of `tn` tensors in the engine's terms. Relies on unsigned integers carrying
// their sign in the type and bools being `i1`.
#pragma once

#include "mlir/IR/Types.h"
#include "support/DType.h"

#include <optional>

namespace tenon::tn {

/// None if no tensor of a run can hold it.
std::optional<DType> dtypeOf(mlir::Type element);
/// Null for the types that `tn` lacks (complex numbers).
mlir::Type elementType(DType type, mlir::MLIRContext *context);
/// Whether elements of the type are only stored, moved and converted.
bool isLowBit(mlir::Type element);

} // namespace tenon::tn
