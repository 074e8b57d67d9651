// Clamping of slice bounds on expressions, shared by Slice on data and on known integers.
#pragma once

#include "compiler/frontend/common/Symbols.h"

namespace tenon::frontend {

struct AxisSlice {
  mlir::AffineExpr start; ///< clamped
  mlir::AffineExpr size;
};

/// NumPy's start:end:step over a dim, for every value of the symbols. None if that cannot be
/// written as expressions.
std::optional<AxisSlice> clampSlice(Symbols &symbols, mlir::AffineExpr dim, mlir::AffineExpr start,
                                    mlir::AffineExpr end, int64_t step);

} // namespace tenon::frontend
