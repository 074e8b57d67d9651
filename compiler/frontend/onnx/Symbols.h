// The symbols of the module being imported and what can be proved about expressions over them.
// Relies on graph/Shape.h for bounds and for the normal form of expressions.
#pragma once

#include "compiler/graph/Shape.h"

namespace tenon::onnx {

enum class Comparison : uint8_t { Equal, Less, LessOrEqual };

class Symbols {
public:
  explicit Symbols(mlir::MLIRContext *owner) : context(owner) {}

  /// The symbol of that name; a new one gets the range. `declared`: the user gave the range.
  mlir::AffineExpr get(llvm::StringRef name, int64_t min, int64_t max, bool declared);
  bool contains(llvm::StringRef name) const;
  mlir::AffineExpr constant(int64_t value) const;

  tn::SymbolList::Range bounds(mlir::AffineExpr expression) const;
  /// Whether `a <op> b` holds for all values of the symbols; none if that differs or is not known.
  std::optional<bool> compare(mlir::AffineExpr a, Comparison op, mlir::AffineExpr b) const;
  /// Proves a <= b. Where only the default range of a symbol stands against it, a smaller maximum
  /// is declared: a position table of 512 rows means that no longer sequence is meant.
  bool atMost(mlir::AffineExpr a, mlir::AffineExpr b);

  void store(mlir::ModuleOp module) const { list.store(module); }

private:
  bool lowerMaximum(mlir::AffineExpr a, int64_t limit);
  void rebuild();

  mlir::MLIRContext *context;
  llvm::SmallVector<tn::Symbol> symbols;
  llvm::SmallVector<bool> declaredByUser;
  tn::SymbolList list;
};

/// A map without dims whose results are the expressions, over as many symbols as they name.
mlir::AffineMap symbolMap(llvm::ArrayRef<mlir::AffineExpr> expressions, mlir::MLIRContext *context);

// Arithmetic on sizes; null if a result cannot be written as an expression or could overflow.
mlir::AffineExpr addSizes(mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr subtractSizes(mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr multiplySizes(mlir::AffineExpr a, mlir::AffineExpr b);
/// Quotient of values that are not negative.
mlir::AffineExpr divideSizes(const Symbols &symbols, mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr remainderSizes(const Symbols &symbols, mlir::AffineExpr a, mlir::AffineExpr b);
/// The product of `numerator` divided by that of `denominator`, factors cancelled.
mlir::AffineExpr divideProducts(const Symbols &symbols, llvm::ArrayRef<mlir::AffineExpr> numerator,
                                llvm::ArrayRef<mlir::AffineExpr> denominator);

} // namespace tenon::onnx
