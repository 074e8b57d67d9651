// Computations that suit the vectors of a CPU better than the ones that all targets share.
#pragma once

#include "compiler/codegen/common/lower/Lowering.h"

namespace tenon::codegen::cpu {

/// Whether an op is an arg_reduce along the innermost dim.
bool isArgReduceOfRows(mlir::Operation *op);
/// Binds its result to tensors.
mlir::LogicalResult computeArgReduceOfRows(Lowering &lowering, mlir::Operation *op);

} // namespace tenon::codegen::cpu
