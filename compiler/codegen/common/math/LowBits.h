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
/// The f32 for a code (i8) of a float type.
mlir::Value decodedFloat(mlir::OpBuilder &builder, mlir::Location location, mlir::Type element,
                         mlir::Value code);

/// The code (i8) of a float type for an f32; beyond the largest it is that.
mlir::Value encodedFloat(mlir::OpBuilder &builder, mlir::Location location, mlir::Type element,
                         mlir::Value number);

/// Unit attribute of a tn.encode of f8E4M3FN that the target does by one instruction: its code is
/// the arith.bitcast of an arith.truncf, which the target's lowering knows.
inline constexpr llvm::StringLiteral kEncodesByInstruction = "tn.by_instruction";

} // namespace tenon::codegen
