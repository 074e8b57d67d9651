// How the results of a region are cut into tiles of the grid: whole rows, strips of columns across
// reductions, or pieces of the innermost dim.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AffineExpr.h"

namespace tenon::codegen::cpu {

/// The tile sizes over the first dims of every result; 0 leaves a dim whole.
struct Tiling {
  mlir::SmallVector<int64_t> sizes;
  mlir::AffineExpr gridPoints;
};

/// Whether the innermost dim is cut into chunks.
bool isChunked(mlir::func::FuncOp source);
/// Also pieces of the innermost dim, of `chunk` elements, if the others are too few for several
/// threads.
Tiling chooseTiling(mlir::func::FuncOp source, int64_t chunk);

} // namespace tenon::codegen::cpu
