// Keys and values that pages hold as codes of 8 bits: a row, which is a position of a head, is its
// codes and behind them its scale. Relies on nothing but the row for what becomes of it, so that a
// position has the same bits whatever is written beside it.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

namespace tenon::tn {

/// Of an i8 cache, or of one of f8E4M3FN.
struct CachedRows {
  /// Bytes of the scale, an f32.
  static constexpr int64_t kScaleBytes = 4;
  /// A row whose largest magnitude is below two to this has the scale 0.
  static constexpr int kLeastExponent = -100;

  /// Whether a cache holds codes; else its elements are numbers, and rows have no scale.
  static bool areCodes(mlir::Type cache) {
    mlir::Type element = mlir::getElementTypeOrSelf(cache);
    return element.isInteger(8) || mlir::isa<mlir::Float8E4M3FNType>(element);
  }
  /// Elements of a cache behind the numbers of a row.
  static int64_t extra(mlir::Type cache) { return areCodes(cache) ? kScaleBytes : 0; }
  /// The largest magnitude of a code, which that of the row becomes: the scale is their quotient.
  static float most(mlir::Type cache) {
    return mlir::getElementTypeOrSelf(cache).isInteger(8) ? 127.0F : 448.0F;
  }
};

} // namespace tenon::tn
