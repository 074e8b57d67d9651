// A reduction over axes as one linalg.generic, with the elements given by a function; shared by all
// ops that sum, compare or average.
#pragma once

#include "compiler/codegen/common/lower/Lowering.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tenon::codegen {

/// Combines an accumulator with an element.
using CombineFn =
    llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::Value, mlir::Value)>;
/// The element (in the accumulator's type) at indices over all of `dims`.
using ElementSource = llvm::function_ref<mlir::Value(Body &, llvm::ArrayRef<mlir::AffineExpr>)>;

/// Reduces a space of `dims` over the axes for which `reduced` is set; the result has the other
/// dims (a result that kept them as 1 could not be tiled along with its readers). Null after an
/// error, which has been reported.
mlir::Value reduce(Lowering &lowering, llvm::ArrayRef<mlir::AffineExpr> dims,
                   const llvm::SmallBitVector &reduced, mlir::TypedAttr init, ElementSource element,
                   CombineFn combine);

/// A tensor of `dims` with elements (rounded to `storage`) given by a function.
mlir::Value compute(Lowering &lowering, llvm::ArrayRef<mlir::AffineExpr> dims, mlir::Type storage,
                    ElementSource element);

/// An element of `value`, widened for sums; null after an error.
mlir::Value wideAt(Body &body, mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> indices);

/// The type sums are taken in: f32 for half-width floats, else the storage type.
mlir::Type accumulatorType(mlir::Type element);
/// Widens a stored float to the accumulator's type, and narrows it back.
mlir::Value widen(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value);
mlir::Value narrow(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                   mlir::Type storage);

/// acc + x and acc * x for floats and integers.
mlir::Value combineSum(mlir::OpBuilder &builder, mlir::Location location, mlir::Value a,
                       mlir::Value b);
mlir::Value combineProduct(mlir::OpBuilder &builder, mlir::Location location, mlir::Value a,
                           mlir::Value x);
/// max or min of two elements of a `tn` element type.
mlir::Value combineExtreme(mlir::OpBuilder &builder, mlir::Location location, mlir::Type element,
                           bool largest, mlir::Value a, mlir::Value x);

/// A constant of a storage type, and the largest (or smallest) value of a `tn` element type in its
/// accumulator's type.
mlir::TypedAttr numberOf(Lowering &lowering, mlir::Type type, double value);
mlir::TypedAttr extremeOf(Lowering &lowering, mlir::Type element, bool largest);
/// The indices into a reduction's result, from those over all dims.
mlir::SmallVector<mlir::AffineExpr> keptIndices(llvm::ArrayRef<mlir::AffineExpr> indices,
                                                const llvm::SmallBitVector &reduced);
/// The number of elements reduced, also as a value of the accumulator's type.
mlir::AffineExpr reducedSize(const Lowering &lowering, llvm::ArrayRef<mlir::AffineExpr> dims,
                             const llvm::SmallBitVector &reduced);
mlir::Value reducedCount(Body &body, llvm::ArrayRef<mlir::AffineExpr> dims,
                         const llvm::SmallBitVector &reduced, mlir::Type type);

} // namespace tenon::codegen
