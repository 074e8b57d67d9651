// How much two boxes of an image share, for codes of every target.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"

namespace tenon::codegen {

/// A box by its lower and upper corner; all values are floats of one type.
struct Box {
  mlir::Value low[2], high[2], area;
};

/// `corners` are both coordinates of the lower corner, then those of the upper.
Box makeBox(mlir::OpBuilder &builder, mlir::Location location, llvm::ArrayRef<mlir::Value> corners);
/// A stored score, widened for comparisons: what is no number counts as the lowest.
mlir::Value scoreOf(mlir::OpBuilder &builder, mlir::Location location, mlir::Value stored);
/// Whether the intersection of two boxes is more than `share` of their union.
mlir::Value overlaps(mlir::OpBuilder &builder, mlir::Location location, const Box &a, const Box &b,
                     mlir::Value share);

} // namespace tenon::codegen
