// From dims to the engine's expressions. Relies on affine maps being over the region's symbols
// only.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "mlir/IR/AffineExpr.h"

namespace tenon::codegen {

/// An expression over the region's symbols as a program of the engine.
Program programOf(mlir::AffineExpr expression);

} // namespace tenon::codegen
