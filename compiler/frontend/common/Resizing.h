// Resizing where only a run knows the ratio of the new to the old size.
// Relies on tn.resize for constant ratios, which is faster: here positions are computed and
// elements gathered.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// How positions become elements. Words as ONNX's Resize has them.
struct Reading {
  tn::ResizeMode mode;
  llvm::StringRef coordinates;  ///< half_pixel, pytorch_half_pixel, align_corners or asymmetric
  llvm::StringRef nearest;      ///< the rounding of mode nearest
  double cubic = -0.75;         ///< the coefficient of mode cubic
  bool excludesOutside = false; ///< mode cubic: weights of what lies outside are 0
  bool isAveraged = false;      ///< a smaller result averages all that it stands for
  /// PyTorch multiplies a position by the old size over the new one, ONNX divides it by the
  /// inverse; where a position is meant to be whole these may round to different elements.
  bool multiplies = false;
};

/// Whether `resizeAlong` has this form for elements of the type.
bool canResizeAlong(const Reading &reading, mlir::Type element);

/// x with `out` elements along the axis; null after a failure.
mlir::Value resizeAlong(Emitter &c, mlir::Value x, int64_t axis, mlir::AffineExpr out,
                        const Reading &reading);

} // namespace tenon::frontend
