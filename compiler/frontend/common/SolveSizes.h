// For which values of one symbol two sizes are equal.
#pragma once

#include "compiler/graph/Shape.h"

namespace tenon::frontend {

/// `symbol` is `value`; or, where that is null, `factor` times any number plus `remainder`.
struct SizeSolution {
  unsigned symbol = 0;
  mlir::AffineExpr value;
  int64_t factor = 1;
  int64_t remainder = 0;
};

/// How `difference` becomes 0: by determining a symbol, or by making divisions in it exact (a
/// strided window and its inverse). None if neither is found; then there may still be values for
/// which it is 0.
std::optional<SizeSolution> solveForZero(mlir::AffineExpr difference,
                                         const tn::SymbolList &symbols);

} // namespace tenon::frontend
