// Parts of tensors whose sizes data decides, for the operators that cut them.
// Relies on the type of the result naming the size from then on.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

/// The first `count` elements of x along an axis: a scalar of i64 in [0, size along the axis].
/// `most` are never exceeded, where more is known than that size.
mlir::Value takeFirst(Emitter &c, mlir::Value x, mlir::Value count, int64_t axis,
                      llvm::ArrayRef<mlir::AffineExpr> most = {});

/// x as a list.
mlir::Value flatten(Emitter &c, mlir::Value x);

/// The numbers of the elements of x, as a list, that are not zero. Nodes that ask for the same have
/// one answer, so that what they select is known to be of one size.
mlir::Value truePositions(Emitter &c, mlir::Value x);

/// The index along each dim of elements that are given by their numbers.
llvm::SmallVector<mlir::Value> coordinates(Emitter &c, mlir::Value numbers,
                                           llvm::ArrayRef<mlir::AffineExpr> dims);

/// Lists side by side, along a new dim `axis` of two.
mlir::Value stackLists(Emitter &c, llvm::ArrayRef<mlir::Value> lists, int64_t axis);

} // namespace tenon::frontend
