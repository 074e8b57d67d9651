// The quadrant of an angle that is too large for a product with pi / 2 as two doubles. Used by the
// formulas of sine, cosine and tangent only.
#pragma once

#include "compiler/codegen/common/math/Real.h"

namespace tenon::codegen::formula {

/// An angle as a multiple of pi / 2 and a rest of at most pi / 4.
struct ReducedAngle {
  /// Modulo 4 in its lowest two bits: a signless integer of the width of `rest`.
  mlir::Value quadrant;
  Real rest;
};

/// From here on reduceLargeAngle computes.
constexpr double kLargeAngle = 0x1p45;

/// `reduced`, and in the lanes of finite x (f64) with |x| >= kLargeAngle the angle x with an
/// absolute error below 1e-17. `isSmall`: |x| < kLargeAngle; where that holds in all lanes, the
/// code is jumped over.
ReducedAngle reduceLargeAngle(const Real &x, mlir::Value isSmall, const ReducedAngle &reduced);

/// Whether a condition holds in any lane.
mlir::Value anyOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value condition);

} // namespace tenon::codegen::formula
