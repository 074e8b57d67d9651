// Proves that a mask hides exactly the keys after each query, so that attention need not read it.
// Relies on positions counted by tn.iota or in constants, on tn.trilu, or on constant triangles.
#pragma once

#include "compiler/opt/Constants.h"
#include "mlir/IR/AffineExpr.h"

namespace tenon::opt {

/// A number that hides a position for certain: a score added to it does not change it.
bool hidesPosition(double value, mlir::Type element);

/// The conjuncts of a bool value, without comparisons of constants that hold everywhere.
llvm::SmallVector<mlir::Value> conditionsOf(mlir::Value condition, const Constants &constants);

/// The additive mask is a constant of zeros.
bool hidesNothing(mlir::Value mask, const Constants &constants);

/// The bool value, over [..., queries, keys], is true exactly where key <= query. Queries and keys
/// must be as many.
bool isCausalCondition(mlir::Value condition, mlir::AffineExpr queries, mlir::AffineExpr keys,
                       const Constants &constants);

/// The additive mask is 0 where key <= query and hides the rest.
bool isCausalBias(mlir::Value mask, mlir::AffineExpr queries, mlir::AffineExpr keys,
                  const Constants &constants);

} // namespace tenon::opt
