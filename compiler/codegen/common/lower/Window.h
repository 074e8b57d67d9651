// Windows that slide over the spatial dims of an operand: where their elements lie, in either
// layout, and what stands for an element outside. Shared by convolutions and pooling.
#pragma once

#include "compiler/codegen/common/lower/Lowering.h"
#include "llvm/ADT/SmallBitVector.h"

namespace tenon::codegen {

/// Positions of a window's elements: output index * stride - pad + tap * dilation, for each spatial
/// dim.
struct Window {
  llvm::ArrayRef<int64_t> strides, pads, dilations;

  llvm::SmallVector<mlir::AffineExpr> positions(llvm::ArrayRef<mlir::AffineExpr> outputs,
                                                llvm::ArrayRef<mlir::AffineExpr> taps) const;
};

/// Spatial positions held inside the operand, and whether they were inside (null if always so).
struct Clamped {
  llvm::SmallVector<mlir::AffineExpr> positions;
  mlir::Value inside;
};

Clamped clampPositions(Body &body, const Window &window, llvm::ArrayRef<mlir::AffineExpr> positions,
                       llvm::ArrayRef<mlir::AffineExpr> input,
                       llvm::ArrayRef<mlir::AffineExpr> output, llvm::ArrayRef<int64_t> kernel);

/// `element` where `inside` (null means always), else `otherwise`.
mlir::Value selectInside(Body &body, mlir::Value inside, mlir::Value element,
                         mlir::Value otherwise);

mlir::Value zeroOf(Body &body, mlir::Type type);

/// Batch and channel dims around the spatial ones, in either layout.
llvm::SmallVector<mlir::AffineExpr> withSpatial(mlir::AffineExpr batch, mlir::AffineExpr channel,
                                                llvm::ArrayRef<mlir::AffineExpr> spatial,
                                                bool channelsLast);
llvm::SmallVector<mlir::AffineExpr> spatialOf(llvm::ArrayRef<mlir::AffineExpr> dims,
                                              bool channelsLast);
mlir::AffineExpr channelOf(llvm::ArrayRef<mlir::AffineExpr> dims, bool channelsLast);

/// The last `count` of `rank` dims.
llvm::SmallBitVector lastReduced(size_t rank, size_t count);

/// Zero in the type in which elements like those of `y` are summed.
mlir::TypedAttr zeroSum(Lowering &lowering, mlir::Value y);

} // namespace tenon::codegen
