// What dims say of one symbol: the batch whose rows are followed, or the length that is padded.
#pragma once

#include "compiler/graph/Shape.h"
#include "llvm/ADT/DenseSet.h"

namespace tenon::tn {

class SymbolDims {
public:
  /// Symbols that data decides within the function count as ones that the symbol decides.
  SymbolDims(unsigned symbol, mlir::Operation *function);

  /// A symbol that data decides, but not data that the symbol counts.
  void setCommon(unsigned computed) { decided.erase(computed); }

  /// Whether the symbol, or a size that its data decides, is in the expression.
  bool names(mlir::AffineExpr dim) const;
  /// In the types or attributes of the operation.
  bool names(mlir::Operation *op) const;
  bool isFree(mlir::Type type) const;
  /// Whether a dim is the symbol times what it does not decide.
  bool isMultiple(mlir::AffineExpr dim) const;
  /// What the symbol is multiplied by in a multiple of it; null if it is none.
  mlir::AffineExpr groupOf(mlir::AffineExpr dim) const;
  /// The only dim that names the symbol, as a multiple of it; none if there is no such dim, or one
  /// names it otherwise.
  std::optional<int64_t> onlyAxis(mlir::Type type) const;

private:
  unsigned symbol;
  llvm::DenseSet<unsigned> decided; ///< the symbol, and sizes that its data may decide
};

} // namespace tenon::tn
