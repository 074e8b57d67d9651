// Weights that tn.pack laid out in one panel: the matrix itself with its dims in another order.
#pragma once

#include "compiler/graph/Tn.h"

namespace tenon::codegen::cuda {

/// Whether what is packed lies in row-major order of the dims that the permutation names.
inline bool isOnePanel(tn::UnpackOp unpack) {
  mlir::RankedTensorType matrix = mlir::cast<mlir::RankedTensorType>(unpack.getType());
  return matrix.getRank() == 2 && unpack.getRows() == 1 && unpack.getGroups() == 1 &&
         static_cast<int64_t>(unpack.getPanel()) == matrix.getDimSize(unpack.getPermutation()[1]);
}

} // namespace tenon::codegen::cuda
