// What the operators share that read a map between its pixels: GridSample, RoiAlign, DeformConv.
// Positions are numbers of pixels, as floats of shape [maps, points, 1]; one a spatial dim.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// True if a dim has that size; an error if it has another one, a gap if that is not known.
bool requireDim(Emitter &c, mlir::AffineExpr dim, int64_t size, llvm::StringRef what);

/// A pixel along one dim that takes part in a sample. Values broadcast against the positions.
struct Tap {
  mlir::Value index;  ///< a whole number, as a float
  mlir::Value inside; ///< where it does not hold, the pixel counts as 0; null if it always counts
  mlir::Value weight; ///< null for 1
};

/// The samples of a map: for each dim the pixels that take part.
using Taps = llvm::SmallVector<llvm::SmallVector<Tap>>;

/// x [maps, channels, spatial...] as [maps, pixels, channels].
mlir::Value pixelsOf(Emitter &c, mlir::Value x);

/// Pixels by their row-major numbers (i64) [maps, points, 1], as [maps, points, channels].
using ReadPixels = llvm::function_ref<mlir::Value(mlir::Value numbers)>;
/// Each map at its own points.
mlir::Value readPixels(Emitter &c, mlir::Value pixels, mlir::Value numbers);

/// The row-major numbers (i64) of pixels, each held inside of its dim.
mlir::Value pixelNumber(Emitter &c, llvm::ArrayRef<mlir::Value> indices,
                        llvm::ArrayRef<mlir::AffineExpr> sizes);

/// Holds a position in [0, size - 1]; NaN becomes 0.
mlir::Value clampPosition(Emitter &c, mlir::Value position, mlir::AffineExpr size);

/// Both neighbours of a position with their weights; those outside of the map count as 0.
llvm::SmallVector<Tap> linearTaps(Emitter &c, mlir::Value position, mlir::AffineExpr size);

/// 0 <= index < size.
mlir::Value isInside(Emitter &c, mlir::Value index, mlir::AffineExpr size);

/// The sums of weighted pixels, [maps, points, channels] in the type of the weights.
mlir::Value sumTaps(Emitter &c, ReadPixels read, const Taps &taps,
                    llvm::ArrayRef<mlir::AffineExpr> sizes, mlir::Type real);

/// The float type that positions and sums are computed in.
mlir::Type sampleType(Emitter &c, mlir::Type element);

} // namespace tenon::frontend
