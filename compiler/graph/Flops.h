// How much arithmetic and memory traffic an operation asks for, as expressions over the module's
// symbols: docs/explanation/graph.md has the table in words. Relies on getDims for the shapes.
#pragma once

#include "compiler/graph/Shape.h"

namespace tenon::tn {

/// Arithmetic operations; a multiply-add counts as two, a function such as exp as one. Null where a
/// dim is not known or the product is too large.
mlir::AffineExpr flopsOf(mlir::Operation *op);

/// Bytes of the different operands, read once, and of the results. What only renames (reshape)
/// moves none; of a slice or a gather the elements that it takes count.
mlir::AffineExpr bytesOf(mlir::Operation *op);

/// Bytes of one value; an element takes at least one.
mlir::AffineExpr bytesOf(mlir::Value value);

} // namespace tenon::tn
