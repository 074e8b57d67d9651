// Sizes that only input data decides. Where the model states the result's shape they are taken from
// there, and every run checks that the data says so too; a run where it does not ends with an
// error. Nothing is believed.
#pragma once

#include "compiler/frontend/onnx/NodeContext.h"

namespace tenon::onnx {

/// x, to be used only where each element of the integers (or whole numbers) of input `input` is the
/// one at its place in one of the lists `allowed`, which are as long. `what` says so in words.
mlir::Value requireData(NodeContext &c, mlir::Value x, unsigned input,
                        llvm::ArrayRef<Sizes> allowed, const llvm::Twine &what);

/// x, to be used only where the condition (one bool) holds.
mlir::Value requireCondition(NodeContext &c, mlir::Value x, mlir::Value condition,
                             const llvm::Twine &what);

/// Lengths (i64), to be used only where all of them are from 0 to `most`.
mlir::Value requireLengths(NodeContext &c, mlir::Value lengths, mlir::AffineExpr most,
                           const llvm::Twine &what);

/// As `requireData` for the axes that Squeeze removes and Unsqueeze adds: only dims of `longer`
/// that are 1. A gap if `longer` and `shorter` differ in more than such dims.
mlir::Value requireAxesOfOne(NodeContext &c, mlir::Value x, unsigned input,
                             llvm::ArrayRef<mlir::AffineExpr> longer,
                             llvm::ArrayRef<mlir::AffineExpr> shorter);

} // namespace tenon::onnx
