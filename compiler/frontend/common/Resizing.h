// Resizing, also where only a run knows the ratio of the new to the old size.
// Relies on tn.resize for constant ratios, which is faster: for others positions are computed and
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

/// The ratio of two sizes, if it is the same for all values of the symbols.
std::optional<double> constantRatio(const Symbols &symbols, mlir::AffineExpr out,
                                    mlir::AffineExpr in);

/// floor(size * scale), of constants as the product of doubles or of floats; null if that is no
/// expression.
mlir::AffineExpr scaledSize(const Symbols &symbols, mlir::AffineExpr size, double scale,
                            bool inDoubles);

/// The largest size up to which a smaller range would give `scaledSize`, in floats; none without
/// one.
std::optional<int64_t> largestScaled(const Symbols &symbols, mlir::AffineExpr size, double scale);

/// What a tensor becomes.
struct Resized {
  tn::Dims dims;
  /// One a dim; none where only a run knows the ratio of the dims.
  llvm::SmallVector<std::optional<double>> scales;
  /// With coordinates tf_crop_and_resize: begins and ends of all dims, and what lies outside.
  llvm::SmallVector<double> region = {};
  double outside = 0;
};

/// x resized; null after a failure.
mlir::Value resize(Emitter &c, mlir::Value x, Resized to, const Reading &reading);

} // namespace tenon::frontend
