// The parts of resampling that kernels with loops of their own share: tables, and the way of
// elements into weighted sums and out of them.
#pragma once

#include "compiler/codegen/common/lower/Lowering.h"

#include <optional>

namespace tenon::codegen {

/// Of a resampled dim, [taps, size of the result]: where a tap reads (i64) and its weight.
/// Null for a dim that is not resampled.
struct ResizeTables {
  mlir::Value positions, weights;
};

/// Tables of a linear or cubic resize as tensors, the weights of a float type; none after an error,
/// which has been reported.
std::optional<ResizeTables> makeResizeTables(Lowering &lowering, tn::ResizeOp op, size_t dim,
                                             mlir::Type real);

/// The type in which sums of weighted elements are taken.
mlir::Type realOf(mlir::Type element);
/// A stored element of a `tn` element type in the float type of the weighted sums.
mlir::Value toReal(mlir::OpBuilder &b, mlir::Location location, mlir::Type element, mlir::Type real,
                   mlir::Value x);
/// A number in the element type: integers are rounded and saturate.
mlir::Value fromReal(mlir::OpBuilder &b, mlir::Location location, mlir::Type element,
                     mlir::Value x);

} // namespace tenon::codegen
