// Shapes by which a region's loops are fewer and longer, or its rows lie together. Buffers are
// dense, so a kernel may see them with other dims than the model has.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tenon::codegen::cpu {

/// group_norm of [N, C, positions...] -> layer_norm of [N, groups, C / groups, positions...], then
/// scale and bias, which are [groups, C / groups, 1...]. Elementwise regions: neighbouring dims
/// that all values have, or that none has, become one. A lone reduction, softmax or scan:
/// neighbouring dims that it reduces or passes along, or does not, become one. A lone gather: the
/// dims of its slices, of its indices and those before the axis become one each.
void reshapeRegion(mlir::func::FuncOp source);

} // namespace tenon::codegen::cpu
