// The strategies by which codegen compiles a region: what a region may hold and how it is laid out on
// the grid. Dispatch forms regions by these rules, codegen relies on them.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace tenon::dispatch {

/// Elementwise and movement ops over one result shape (every result has the same dims); a grid point is a
/// slice of the outer dims.
inline constexpr llvm::StringLiteral kElementwise = "elementwise";
/// One reduction, softmax or norm over trailing dims, with elementwise producers and consumers whose rows are the same; a
/// grid point is one row or a few.
inline constexpr llvm::StringLiteral kRows = "rows";
/// One matmul or conv (the root) and elementwise consumers of its result with the same dims; the other
/// operands of those broadcast to it. Conv is channelsLast. Constant B operands come through tn.pack.
inline constexpr llvm::StringLiteral kContraction = "contraction";
/// One tn.attention.
inline constexpr llvm::StringLiteral kAttention = "attention";
/// One op of any other kind.
inline constexpr llvm::StringLiteral kSingle = "single";

} // namespace tenon::dispatch
