// The computations: ops that are more than an access to single elements. Each binds its results to
// tensors made of linalg.generics or loop nests; the table is in Compute.cpp.
#pragma once

#include "compiler/codegen/common/lower/Lowering.h"

namespace tenon::codegen {

mlir::LogicalResult computeReduce(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeSoftmax(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeLayerNorm(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeRmsNorm(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeGroupNorm(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeArgReduce(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeRoundBlocks(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeCumsum(Lowering &lowering, mlir::Operation *op);

mlir::LogicalResult computeAttention(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeMatmul(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeConv(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeConvTranspose(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeMaxPool(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeMaxPoolIndex(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeAvgPool(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeResize(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeScatterElements(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeScatterNd(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeTopK(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeHistogram(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeTruePositions(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeSelectBoxes(Lowering &lowering, mlir::Operation *op);
mlir::LogicalResult computeSample(Lowering &lowering, mlir::Operation *op);

/// The bin of `tn.histogram` that an element of f32 falls into.
mlir::Value binOf(mlir::OpBuilder &b, mlir::Location location, mlir::Value element, int64_t bits);

} // namespace tenon::codegen
