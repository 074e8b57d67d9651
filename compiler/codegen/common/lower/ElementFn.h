// Element functions and index helpers that stand in files of their own; the table is in
// ElementFn.cpp.
#pragma once

#include "compiler/codegen/common/lower/Lowering.h"
#include "compiler/graph/TensorInfo.h"

namespace tenon::codegen {

mlir::Value elementOfQuantize(Body &body, mlir::Operation *op,
                              llvm::ArrayRef<mlir::AffineExpr> indices);
mlir::Value elementOfDequantize(Body &body, mlir::Operation *op,
                                llvm::ArrayRef<mlir::AffineExpr> indices);

mlir::Value elementOfUnpackBits(Body &body, mlir::Operation *op,
                                llvm::ArrayRef<mlir::AffineExpr> indices);
mlir::Value elementOfDecodeRows(Body &body, mlir::Operation *op,
                                llvm::ArrayRef<mlir::AffineExpr> indices);

mlir::Value elementOfGather(Body &body, mlir::Operation *op,
                            llvm::ArrayRef<mlir::AffineExpr> indices);
mlir::Value elementOfGatherElements(Body &body, mlir::Operation *op,
                                    llvm::ArrayRef<mlir::AffineExpr> indices);
mlir::Value elementOfGatherNd(Body &body, mlir::Operation *op,
                              llvm::ArrayRef<mlir::AffineExpr> indices);

/// Zero, for an element of a tensor that has none and must not be read.
mlir::Value zeroElement(Body &body, mlir::Value value);

/// `element` of the index tensor `indices` as an index into a dim, whose size is `size`: negative
/// ones count from the end. One outside fails the kernel and is held inside the dim so that no
/// index reaches outside of the tensor; 0 if the dim is empty.
mlir::Value indexInDim(mlir::OpBuilder &builder, mlir::Location location, mlir::Value indices,
                       mlir::Value element, mlir::AffineExpr dim, mlir::Value size);

/// What a scatter of a `tn` element type leaves where `old` was, as stored.
mlir::Value combineUpdate(mlir::OpBuilder &builder, mlir::Location location, tn::ScatterKind kind,
                          mlir::Type element, mlir::Value old, mlir::Value update);

} // namespace tenon::codegen
