// The symbols of the module being imported and what can be proved about expressions over them.
// Relies on graph/Shape.h for bounds and for the normal form of expressions.
#pragma once

#include "compiler/graph/Constraints.h"
#include "compiler/graph/Shape.h"

namespace tenon::frontend {

enum class Comparison : uint8_t { Equal, Less, LessOrEqual };

/// The listener to the shape rules of an import: what they rely on is proved, or solved for a
/// symbol and recorded.
class Symbols : public tn::Assumptions {
public:
  explicit Symbols(mlir::MLIRContext *owner) : context(owner) {}

  /// The symbol of that name; a new one gets the range. `declared`: the user gave the range. `dim`
  /// is where it stands in the first input that has it.
  mlir::AffineExpr get(llvm::StringRef name, int64_t min, int64_t max, bool declared,
                       uint32_t dim = 1);
  /// A new symbol that data decides, from 0 to the least of `bounds` (at least one).
  mlir::AffineExpr addDataDependent(llvm::StringRef name, llvm::ArrayRef<mlir::AffineExpr> bounds);
  bool dependsOnData(mlir::AffineExpr expression) const;
  /// Whether it is the first dim of an input, of a range that the user did not give.
  bool isBatch(mlir::AffineExpr expression) const;
  bool contains(llvm::StringRef name) const;
  mlir::AffineExpr constant(int64_t value) const;

  tn::SymbolList::Range bounds(mlir::AffineExpr expression) const;
  /// Whether `a <op> b` holds for all values of the symbols; none if that differs or is not known.
  std::optional<bool> compare(mlir::AffineExpr a, Comparison op, mlir::AffineExpr b) const;
  /// The lesser and the greater for every value of the symbols, and 1 where the expression is 0 or
  /// more, else 0. Null where an operand is, or where that cannot be written.
  mlir::AffineExpr lesser(mlir::AffineExpr a, mlir::AffineExpr b);
  mlir::AffineExpr greater(mlir::AffineExpr a, mlir::AffineExpr b);
  mlir::AffineExpr step(mlir::AffineExpr expression);

  bool assume(tn::ConstraintKind kind, mlir::AffineExpr left, mlir::AffineExpr right) override;
  /// The node of the model that the next constraints come from.
  void setNode(std::string_view name) { node = name; }

  /// The expression without the symbols that constraints determine.
  mlir::AffineExpr canonical(mlir::AffineExpr expression) const;
  tn::Dims canonical(llvm::ArrayRef<mlir::AffineExpr> dims) const;
  /// How many symbols constraints have determined so far.
  unsigned determined() const { return replacedCount; }

  /// Writes `tn.symbols` and `tn.constraints`.
  void store(mlir::ModuleOp module) const;
  llvm::ArrayRef<tn::Symbol> all() const { return list.symbols(); }
  /// Whether the user gave the range of each that is a dim of an input.
  bool areDeclared() const {
    return llvm::all_of(entries, [](const Entry &entry) {
      return entry.declared || entry.derived || entry.isDataDependent;
    });
  }

private:
  struct Entry {
    bool declared = false;             ///< the user gave its range
    uint32_t dim = 1;                  ///< of the first input that has it
    bool derived = false;              ///< no dim of an input: made by a constraint
    mlir::AffineExpr replacement = {}; ///< null while nothing determines the symbol
    bool isDataDependent = false;      ///< an operation binds it: no constraint determines it
    tn::Dims most = {};                ///< of one that data decides: it is at most each of these
  };

  mlir::AffineExpr holdSteps(mlir::AffineExpr expression);
  void cancelFactors(mlir::AffineExpr &left, mlir::AffineExpr &right) const;
  bool assumeEqual(mlir::AffineExpr left, mlir::AffineExpr right);
  bool assumeEqualOrOne(mlir::AffineExpr left, mlir::AffineExpr right);
  bool assumeAtLeast(mlir::AffineExpr left, mlir::AffineExpr right);
  bool assumeZeroOnSide(mlir::AffineExpr difference);
  bool isBoundedBy(mlir::AffineExpr value, mlir::AffineExpr bound) const;
  bool determine(unsigned symbol, mlir::AffineExpr value);
  bool takeMultiples(unsigned symbol, int64_t factor, int64_t remainder);
  void replace(unsigned symbol, mlir::AffineExpr value);
  bool narrow(unsigned symbol, int64_t min, int64_t max);
  bool narrowTo(mlir::AffineExpr value, tn::Symbol range);
  mlir::AffineExpr stated(unsigned symbol, tn::LinearDim &form) const;
  mlir::AffineExpr overInputs(mlir::AffineExpr expression) const;
  void record(tn::ConstraintKind kind, mlir::AffineExpr left, mlir::AffineExpr right);

  mlir::MLIRContext *context;
  tn::SymbolList list;
  llvm::SmallVector<Entry> entries; ///< as `list`
  llvm::SmallVector<tn::Constraint> constraints;
  std::string node;
  unsigned replacedCount = 0;
  bool hasSteps = false; ///< sizes hold steps, which ranges may decide
};

// Arithmetic on sizes; null if a result cannot be written as an expression or could overflow.
mlir::AffineExpr addSizes(mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr subtractSizes(mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr multiplySizes(mlir::AffineExpr a, mlir::AffineExpr b);
/// Quotient towards zero; null unless `a` is known to be of one sign and `b` to be above 0.
mlir::AffineExpr divideSizes(const Symbols &symbols, mlir::AffineExpr a, mlir::AffineExpr b);
/// Remainder with the divisor's sign; null unless the divisor is a constant or both are known to be
/// of one sign.
mlir::AffineExpr remainderSizes(const Symbols &symbols, mlir::AffineExpr a, mlir::AffineExpr b);
/// The product of `numerator` divided by that of `denominator`, factors cancelled.
mlir::AffineExpr divideProducts(const Symbols &symbols, llvm::ArrayRef<mlir::AffineExpr> numerator,
                                llvm::ArrayRef<mlir::AffineExpr> denominator);

} // namespace tenon::frontend
