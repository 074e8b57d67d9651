// Conversions between narrow types and those that they are computed in, where they change nothing.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tenon::codegen::cpu {

/// Greedy patterns, on scalars and vectors: no rounding of a value that is one of the narrow type
/// already (a maximum, a selection, a sign), no saturation of one that is in range. For before
/// conversions of bf16 are expanded.
void populateExactConversionPatterns(mlir::RewritePatternSet &patterns);

/// The same of a kernel that ends a product of bf16: what its sums become keeps the digits of f32
/// until it is stored, as they do in the libraries' kernels.
void populateStorageConversionPatterns(mlir::RewritePatternSet &patterns);

} // namespace tenon::codegen::cpu
