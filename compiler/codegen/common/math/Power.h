// The scalar body of tn.pow, for every pair of types.
#pragma once

#include "compiler/graph/Tn.h"
#include "mlir/IR/Builders.h"

namespace tenon::codegen {

/// The power of the elements `args`, all in storage types.
mlir::Value emitPow(mlir::OpBuilder &builder, mlir::Location location, tn::PowOp op,
                    mlir::ValueRange args);

} // namespace tenon::codegen
