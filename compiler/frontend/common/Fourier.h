// Fourier transforms as products with tables of cosines and sines.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// Larger tables would outweigh any model: a table is as large as the length squared.
constexpr int64_t kMaxTableElements = int64_t{1} << 24;

/// One dimension's transform: `length` of the signal's elements are used, of `parts` numbers each.
struct Transform {
  int64_t length = 0;
  int64_t parts = 1;   ///< 1 for real, 2 for complex input
  int64_t points = 0;  ///< the transform's length
  int64_t results = 0; ///< how many results are wanted
  bool inverse = false;
  bool realResult = false; ///< the input is half of a symmetric spectrum

  int64_t resultParts() const { return realResult ? 1 : 2; }
  int64_t tableElements() const { return length * parts * results * resultParts(); }
};

/// x [..., length * parts] as [..., results, parts of a result]. Null after a failure.
mlir::Value transformRows(Emitter &c, mlir::Value x, const Transform &t);

/// x [..., n, ..., parts], of which the first `length` along the axis are used, as [..., results,
/// ..., parts of a result]. Null after a failure.
mlir::Value transformAxis(Emitter &c, mlir::Value x, int64_t axis, const Transform &t);

/// As transformAxis for all elements along an axis of a length that may be a symbol: the table is
/// computed by the run. All results are complex.
mlir::Value transformWhole(Emitter &c, mlir::Value x, int64_t axis, bool inverse);

} // namespace tenon::frontend
