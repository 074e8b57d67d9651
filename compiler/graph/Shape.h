// Symbolic shapes: dims as affine expressions over the module's symbols, and the symbols' ranges.
// Relies on the #tn.shape encoding; static dims are constant expressions.
#pragma once

#include "compiler/graph/Tn.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace tenon::tn {

using Dims = llvm::SmallVector<mlir::AffineExpr>;

/// The dims of a tensor. A dynamic dim without an encoding gives a null expression.
Dims getDims(mlir::Type tensor);

/// The tensor type with these dims; carries a #tn.shape encoding only if a dim is not constant. A
/// null dim gives a dynamic one, and then no dim keeps its expression.
mlir::RankedTensorType makeTensor(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::Type element);

/// The same shape with another element type.
mlir::RankedTensorType withElement(mlir::Type tensor, mlir::Type element);

/// The normal form: a sum of products of symbols and of divisions that cannot be taken apart. Equal
/// expressions over the symbols print equal; floor divisions by constants are merged. Null if the
/// arithmetic overflows, a constant divisor is not positive, or the expression is too large.
mlir::AffineExpr simplify(mlir::AffineExpr expression);

/// Sum and product in the normal form. Unlike the operators of AffineExpr they do not wrap: null if
/// the result overflows or an operand is null.
mlir::AffineExpr addDims(mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr multiplyDims(mlir::AffineExpr a, mlir::AffineExpr b);

/// `factor` times a symbol plus `offset`.
struct LinearDim {
  unsigned symbol = 0;
  int64_t factor = 1; ///< above 0
  int64_t offset = 0;
};
/// The dim as a linear expression of one symbol, if it is one.
std::optional<LinearDim> linearDim(mlir::AffineExpr dim);

/// Equal for every value of the symbols (after simplification; false if that cannot be shown).
bool sameDim(mlir::AffineExpr a, mlir::AffineExpr b);
bool sameDims(llvm::ArrayRef<mlir::AffineExpr> a, llvm::ArrayRef<mlir::AffineExpr> b);

/// The constant value of a dim, if it is one.
std::optional<int64_t> constantDim(mlir::AffineExpr dim);

/// A map without dims whose results are the expressions, over as many symbols as they name.
mlir::AffineMap symbolMap(llvm::ArrayRef<mlir::AffineExpr> expressions, mlir::MLIRContext *context);

/// The product of the dims, simplified.
mlir::AffineExpr elementCount(mlir::MLIRContext *context, llvm::ArrayRef<mlir::AffineExpr> dims);

/// numpy's broadcast of two shapes. What is not certain is assumed (Constraints.h): that two
/// different symbolic dims are equal, that a symbolic dim is the constant beside it or 1. Failure
/// where it cannot be.
mlir::FailureOr<Dims> broadcastDims(llvm::ArrayRef<mlir::AffineExpr> a,
                                    llvm::ArrayRef<mlir::AffineExpr> b);

/// A declared symbol and its inclusive range.
struct Symbol {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
};

/// The symbols of a module, read from and written to its `tn.symbols` attribute.
class SymbolList {
public:
  explicit SymbolList(mlir::ModuleOp module);
  explicit SymbolList(llvm::ArrayRef<Symbol> symbols) : list(symbols) {}
  SymbolList() = default;

  llvm::ArrayRef<Symbol> symbols() const { return list; }
  /// Index of the symbol of that name, added with the range if it is new.
  unsigned add(llvm::StringRef name, int64_t min, int64_t max);
  void store(mlir::ModuleOp module) const;
  void setRange(unsigned index, int64_t min, int64_t max);

  struct Range {
    int64_t min;
    int64_t max;
  };
  /// Inclusive bounds of an expression (interval arithmetic, saturating).
  Range bounds(mlir::AffineExpr expression) const;

private:
  llvm::SmallVector<Symbol> list;
};

/// The value of an expression for given symbol values; nullopt on division by zero or overflow.
std::optional<int64_t> evaluate(mlir::AffineExpr expression, llvm::ArrayRef<int64_t> symbols);

} // namespace tenon::tn
