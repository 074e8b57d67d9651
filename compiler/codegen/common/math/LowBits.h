// The element types that are only stored and converted (floats of 8 bits and less, integers of 4
// and less): their conversions as arith ops on codes, one a byte.
#pragma once

#include "compiler/graph/TnRare.h"
#include "mlir/IR/Builders.h"

namespace tenon::codegen {

/// The code for a stored number, and the stored number for a code.
mlir::Value emitEncode(mlir::OpBuilder &builder, mlir::Location location, tn::EncodeOp op,
                       mlir::Value stored);
mlir::Value emitDecode(mlir::OpBuilder &builder, mlir::Location location, tn::DecodeOp op,
                       mlir::Value code);

} // namespace tenon::codegen
