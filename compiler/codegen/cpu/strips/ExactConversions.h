// Conversions between narrow types and those that they are computed in, where they change nothing.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tenon::codegen::cpu {

/// Greedy patterns, on scalars and vectors: no rounding of a value that is one of the narrow type
/// already (a maximum, a selection, a sign), no saturation of one that is in range. For before
/// conversions of bf16 are expanded.
void populateExactConversionPatterns(mlir::RewritePatternSet &patterns);

} // namespace tenon::codegen::cpu
