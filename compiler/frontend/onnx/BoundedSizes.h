// Sizes that data computes within bounds that follow from how it computes them: a count of what a
// mask selects, the lesser of a number and a size. Each becomes a symbol that tn.take_first binds.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// What no element of an integer value exceeds, whatever the data; null if nothing is known.
mlir::AffineExpr mostOf(const Symbols &symbols, mlir::Value x);

/// The size that a scalar of integers gives in each run; null if it has no bound.
mlir::AffineExpr boundedSize(NodeContext &c, mlir::Value x);

/// The elements of input `i`, known ones as they are; none if one of them has no bound.
std::optional<Sizes> boundedSizes(NodeContext &c, unsigned i);

} // namespace tenon::onnx
