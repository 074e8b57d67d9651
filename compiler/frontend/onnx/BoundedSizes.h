// Sizes that data computes within bounds that follow from how it computes them: a count of what a
// mask selects, the lesser of a number and a size. Each becomes a symbol that tn.take_first binds.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// What no element of an integer value exceeds, whatever the data; null if nothing is known.
mlir::AffineExpr mostOf(const Symbols &symbols, mlir::Value x);

/// The size that a scalar of integers gives in each run; null if it has no bound.
mlir::AffineExpr boundedSize(NodeContext &c, mlir::Value x);

/// The size that a scalar of integers gives, which the run refuses unless it lies in 0 to each of
/// `most`; from then on it is bounded for whoever asks.
mlir::AffineExpr requiredSize(NodeContext &c, mlir::Value x, llvm::ArrayRef<mlir::AffineExpr> most,
                              const llvm::Twine &what);

/// The elements of input `i`, known ones as they are; none if one of them has no bound.
std::optional<Sizes> boundedSizes(NodeContext &c, unsigned i);

} // namespace tenon::onnx
