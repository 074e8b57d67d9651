// Loops over squares of lanes x lanes elements, for operands that lie along another loop than the
// strip: rows of a square are read as they lie and transposed in registers.
#pragma once

#include "compiler/codegen/cpu/strips/StripLanes.h"
#include "mlir/IR/Builders.h"

namespace tenon::codegen::cpu {

/// The loop along which the operands lie that the strip would read by strides; none if they do not
/// lie along one, or if the body is more than a few ops (it is written out for each row).
std::optional<unsigned> crossLoop(mlir::linalg::GenericOp op, unsigned strip);

/// The loops over `strip` and `cross` (of the given sizes) and all that is in them; the indices of
/// the others are in `ivs`.
void buildSquares(mlir::linalg::GenericOp op, mlir::OpBuilder &builder,
                  llvm::MutableArrayRef<mlir::Value> ivs, llvm::ArrayRef<mlir::Value> sizes,
                  unsigned strip, unsigned cross, int64_t lanes);

} // namespace tenon::codegen::cpu
