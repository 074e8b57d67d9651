// Translates the compiler's affine expressions over symbols into the plan's expressions.
// Relies on each used symbol being a dim of an input on its own.
#pragma once

#include "compiler/graph/Shape.h"
#include "engine/Plan.h"

namespace tenon::plan {

class SizeTranslator {
public:
  /// Adds the symbols that `inputs` (types of the model's inputs) bind to the plan.
  SizeTranslator(mlir::ModuleOp module, mlir::TypeRange inputs, engine::Plan &enginePlan);

  engine::ExprId translate(mlir::AffineExpr expression);
  llvm::SmallVector<engine::ExprId> translate(llvm::ArrayRef<mlir::AffineExpr> expressions);
  /// Bytes of a dense tensor.
  engine::ExprId bytesOf(mlir::Type tensor);
  /// A program over a region's symbols, `symbols[i]` standing for symbol i.
  engine::ExprId substitute(llvm::ArrayRef<engine::ExprTerm> program,
                            llvm::ArrayRef<engine::ExprId> symbols);

  /// The first symbol that was used but that no input binds; empty if none.
  const std::string &unboundSymbol() const { return unbound; }

private:
  engine::Plan &plan;
  tn::SymbolList declared;
  /// Plan symbol of each module symbol.
  llvm::SmallVector<uint32_t> numbers;
  std::string unbound;
};

/// Bytes of one element in memory (a bool takes one).
int64_t elementBytes(mlir::Type tensor);
DType dtypeOf(mlir::Type tensor);

} // namespace tenon::plan
