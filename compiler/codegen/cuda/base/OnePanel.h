// Matrices that tn.pack laid out without tiles: as they are, or transposed.
#pragma once

#include "compiler/graph/Tn.h"

namespace tenon::codegen::cuda {

/// Whether what is packed lies in row-major order of the dims that outer_dims_perm names.
inline bool isOnePanel(tn::UnpackOp unpack) {
  mlir::RankedTensorType matrix = mlir::cast<mlir::RankedTensorType>(unpack.getType());
  return matrix.getRank() == 2 && unpack.getInnerTiles().empty();
}

} // namespace tenon::codegen::cuda
