// The lesser and the greater of two dims for every value of the symbols. Affine expressions have
// neither, so they are written with a step: 1 where an expression is 0 or more, else 0, which is a
// division by a number that the expression does not reach.
#pragma once

#include "compiler/graph/Shape.h"

namespace tenon::tn {

/// A division by a constant this large or larger is a step.
inline constexpr int64_t kLeastStepDivisor = int64_t{1} << 20;

/// 1 where x is 0 or more, else 0; null where x may be as large as no size is.
mlir::AffineExpr stepDim(const SymbolList &symbols, mlir::AffineExpr x);
mlir::AffineExpr smallerDim(const SymbolList &symbols, mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr largerDim(const SymbolList &symbols, mlir::AffineExpr a, mlir::AffineExpr b);

/// A step in an expression: the division in it, 1 (or 0) where `excess` is 0 or more, else one
/// less.
struct Step {
  mlir::AffineExpr division;
  int64_t above = 1; ///< what the division gives where `excess` is 0 or more
  mlir::AffineExpr excess;
};

/// All steps of an expression, those inside of others first.
llvm::SmallVector<Step> stepsOf(mlir::AffineExpr expression);

/// Whether 32 bits do not hold what an expression computes for a step in it.
bool hasWideStep(mlir::AffineExpr expression);

/// The expression where `step.excess` is 0 or more, or below 0; null if it overflows.
mlir::AffineExpr onSide(mlir::AffineExpr expression, const Step &step, bool isAbove);

/// The symbols with ranges in which the excess may be 0 or more, or below 0, as far as it is a line
/// in one of them; none if it never is.
std::optional<SymbolList> symbolsOnSide(const SymbolList &symbols, const Step &step, bool isAbove);

/// Whether an expression is 0 wherever the excess of a step is: both sides of the step meet there.
bool vanishesAt(mlir::AffineExpr expression, mlir::AffineExpr excess);

/// The expression without the steps whose side the ranges of the symbols decide.
mlir::AffineExpr withoutDecidedSteps(mlir::AffineExpr expression, const SymbolList &symbols);

/// An expression as the lesser or the greater of two.
struct Extremum {
  bool isGreater = false;
  mlir::AffineExpr first, second;
};
/// None if the expression has no step, or is no such choice.
std::optional<Extremum> asExtremum(mlir::AffineExpr expression, const SymbolList &symbols);

} // namespace tenon::tn
