// Questions that region formation and the cost model ask about single operations.
// Relies on the traits of `tn`.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "compiler/target/Target.h"

namespace tenon::dispatch {

/// True for the elementwise operations of `tn`, which have one result.
bool isElementwise(mlir::Operation *op);
/// Movement that regions compute while they read: on a CPU what its vector loops read by strides
/// (transpose, slice and broadcast), on a GPU any but reshapes, which stay outside, and those
/// with an index for each element.
bool isMovement(mlir::Operation *op, const target::Target &device);
/// The number of trailing dims of the operand that make up a row for a reduction, softmax or norm;
/// 0 if the op is no such operation that has a kernel of rows.
size_t rowRank(mlir::Operation *op, const target::Target &device);
/// A conv with one input channel a group.
bool isDepthwise(tn::ConvOp conv);
/// The dims of the first result.
tn::Dims resultDims(mlir::Operation *op);

} // namespace tenon::dispatch
