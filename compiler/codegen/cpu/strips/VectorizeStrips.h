// linalg on memrefs to loops of vector operations: strips along the one loop that reads and writes
// contiguously, the tail under a mask, sums kept in registers.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tenon::codegen::cpu {

/// Replaces every linalg op of the function. `lanes` is the number of f32 in a vector register. Ops
/// whose body has no vector form become scalar loops.
mlir::LogicalResult vectorizeStrips(mlir::func::FuncOp function, int64_t lanes);

} // namespace tenon::codegen::cpu
