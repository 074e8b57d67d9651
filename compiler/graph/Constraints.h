// What the shapes of a model must satisfy where a shape rule cannot prove what it relies on.
// While a model is imported, the rules of graph/infer tell an Assumptions; what it recorded is the
// module attribute `tn.constraints`, which the engine carries and checks. Elsewhere nobody listens,
// and what is not proved is an error.
#pragma once

#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tenon::tn {

/// equal: left is right. equal_or_one: left is right or 1 (a broadcast). divisible: left is a
/// multiple of the constant right, which is above 0. at_least: left is right or more.
struct Constraint {
  ConstraintKind kind = ConstraintKind::equal;
  mlir::AffineExpr left;
  mlir::AffineExpr right;
  std::string node; ///< of the model, that needs it
};

/// Proves or records what a shape rule relies on.
class Assumptions {
public:
  virtual ~Assumptions() = default;
  /// False if it does not hold for any value of the symbols, or if it cannot be said as a
  /// constraint.
  virtual bool assume(ConstraintKind kind, mlir::AffineExpr left, mlir::AffineExpr right) = 0;
};

/// Lets `listener` hear the rules of this context as long as this lives.
class ScopedAssumptions {
public:
  ScopedAssumptions(mlir::MLIRContext *context, Assumptions &listener);
  ~ScopedAssumptions();
  ScopedAssumptions(const ScopedAssumptions &) = delete;
  ScopedAssumptions &operator=(const ScopedAssumptions &) = delete;

private:
  TnDialect *dialect;
  Assumptions *before;
};

/// Whether somebody listens and takes the assumption on.
bool assume(ConstraintKind kind, mlir::AffineExpr left, mlir::AffineExpr right);
/// As `assume` for what verifiers let pass where nobody listens: it was assumed when the model was
/// imported.
bool assumeIfHeard(ConstraintKind kind, mlir::AffineExpr left, mlir::AffineExpr right);

/// Whether a division that may leave a remainder is part of the expression.
bool hasDivision(mlir::AffineExpr expression);

llvm::SmallVector<Constraint> constraintsOf(mlir::ModuleOp module);
void storeConstraints(mlir::ModuleOp module, llvm::ArrayRef<Constraint> constraints);

/// On an argument whose type has other dims than the model states, as constraints determine some of
/// its symbols: a map whose results are the stated ones.
inline constexpr llvm::StringLiteral kStatedDims = "tn.dims";
/// The dims of an argument as the model states them.
llvm::SmallVector<mlir::AffineExpr> statedDims(mlir::func::FuncOp function, unsigned argument);

/// Values for the module's symbols that its constraints allow, near `values`, which are in range
/// and are changed; for whoever makes inputs up. False if a short search finds none.
bool satisfyConstraints(mlir::func::FuncOp function, llvm::MutableArrayRef<int64_t> values);

} // namespace tenon::tn
