// How padded places pass operations that move elements.
#pragma once

#include "compiler/graph/PaddingRules.h"

namespace tenon::tn {

inline int64_t rank(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getRank();
}

/// What an operation that reads elements in other ways leaves known of their axes.
Places forgotten(Places x);

Places placesMoved(const KnownPlaces &known, ReshapeOp reshape);
Places placesMoved(const KnownPlaces &known, TransposeOp transpose);
Places placesMoved(const KnownPlaces &known, BroadcastOp broadcast);
Places placesMoved(const KnownPlaces &known, ConcatOp concat);
/// A whole axis, or places that every length has.
Places placesMoved(const KnownPlaces &known, SliceOp slice);
Places placesMoved(const KnownPlaces &known, GatherOp gather);
Places placesMoved(const KnownPlaces &known, TriluOp triangle);

} // namespace tenon::tn
