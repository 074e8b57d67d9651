// What is asked of a tensor's type in many places.
#pragma once

#include "compiler/graph/Shape.h"

namespace tenon::tn {

inline int64_t rankOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getRank();
}

/// Whether a tensor is known to have no elements.
inline bool isEmpty(mlir::Type tensor) {
  return llvm::is_contained(llvm::map_range(getDims(tensor), constantDim), 0);
}
inline bool isEmpty(mlir::Value value) { return isEmpty(value.getType()); }

} // namespace tenon::tn
