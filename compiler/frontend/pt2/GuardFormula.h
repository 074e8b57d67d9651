// Guards as expressions over the symbols: a comparison is a sign, and what several comparisons
// decide together is computed from 0 and 1.
#pragma once

#include "compiler/frontend/common/Symbols.h"
#include "compiler/frontend/pt2/GuardText.h"

namespace tenon::pt2 {

/// Builds expressions that have the guard's value wherever the symbols are in their ranges. Relies
/// on the bounds that Symbols gives; null for what no expression can say.
class GuardFormula {
public:
  /// `whereTried` gives the truth of a comparison that computes with reals; null where it cannot.
  using Tried = std::function<mlir::AffineExpr(const GuardTerm &comparison)>;

  GuardFormula(const frontend::Symbols &theSymbols, Tried tried)
      : symbols(theSymbols), whereTried(std::move(tried)) {}

  /// What is at least 0 (or is 0, of an equality) exactly where the comparison holds. Null of !=,
  /// and where a part of it is one of two numbers.
  mlir::AffineExpr difference(const GuardTerm &comparison);
  /// 1 where the guard holds, else 0.
  mlir::AffineExpr truth(const GuardTerm &guard);
  /// 1 where the expression is at least 0, else 0.
  mlir::AffineExpr isNatural(mlir::AffineExpr expression);
  /// 1 where `least` <= value <= `most`; an open end is none.
  mlir::AffineExpr isWithin(mlir::AffineExpr value, int64_t least, std::optional<int64_t> most);
  /// 1 where either is 1.
  mlir::AffineExpr either(mlir::AffineExpr a, mlir::AffineExpr b);

private:
  /// above / below, which is above 0. `isRounded`: Python rounds it to a double, so that it can be
  /// compared but not computed with.
  struct Quotient {
    mlir::AffineExpr above = {};
    mlir::AffineExpr below = {};
    bool isRounded = false;

    explicit operator bool() const { return above && below; }
  };

  Quotient number(const GuardTerm &term);
  Quotient real(double value);
  Quotient combine(GuardTerm::Op op, Quotient left, Quotient right);
  Quotient divide(GuardTerm::Op op, Quotient left, Quotient right);
  Quotient power(Quotient base, const GuardTerm &exponent);
  Quotient rounded(GuardTerm::Op op, Quotient number);
  GuardTerm *choiceIn(GuardTerm &term);
  mlir::AffineExpr truthByCases(const GuardTerm &comparison);
  mlir::AffineExpr one() const { return symbols.constant(1); }
  Quotient whole(mlir::AffineExpr value) const { return {value, one(), false}; }

  const frontend::Symbols &symbols;
  Tried whereTried;
  unsigned cases = 0;
};

} // namespace tenon::pt2
