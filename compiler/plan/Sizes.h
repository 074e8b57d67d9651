// Translates the compiler's affine expressions over symbols into the plan's expressions.
// Relies on each used symbol being in a dim of a state, a dim of an input, determined by one, or
// decided by data.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "engine/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tenon::plan {

class SizeTranslator {
public:
  /// Adds the symbols that states name and those that the inputs (all other arguments) bind.
  SizeTranslator(mlir::func::FuncOp function, llvm::ArrayRef<mlir::BlockArgument> inputs,
                 engine::Plan &enginePlan);

  /// Adds the symbols that data decides, in the order in which regions bind them.
  void addDataSymbols(llvm::ArrayRef<tn::RegionOp> order);
  /// Adds the module's constraints, once all symbols are there.
  void addConstraints();
  /// The number of a module symbol in the plan, where data decides it.
  uint32_t dataSymbol(unsigned symbol) const { return *plan.exprs.symbolIndex(values[symbol]); }
  /// Whether a size does not shrink where data selects more: memory is laid out for the most.
  bool growsWithData(engine::ExprId size) const;

  engine::ExprId translate(mlir::AffineExpr expression);
  llvm::SmallVector<engine::ExprId> translate(llvm::ArrayRef<mlir::AffineExpr> expressions);
  /// Whether every symbol of an expression is one of the plan's.
  bool isBound(mlir::AffineExpr expression) const;
  /// Bytes of a dense tensor.
  engine::ExprId bytesOf(mlir::Type tensor);
  /// A program over a region's symbols, `symbols[i]` standing for symbol i.
  engine::ExprId substitute(llvm::ArrayRef<engine::ExprTerm> program,
                            llvm::ArrayRef<engine::ExprId> symbols);

  /// The first symbol that was used but that no input binds; empty if none.
  const std::string &unboundSymbol() const { return unbound; }

private:
  void bindOfSession(unsigned symbol);
  void bindStated(mlir::ArrayRef<mlir::AffineExpr> dims, size_t input);
  void bindDetermined(mlir::AffineExpr stated, mlir::AffineExpr dim);

  mlir::ModuleOp module;
  engine::Plan &plan;
  tn::SymbolList declared;
  /// What each module symbol is in the plan.
  llvm::SmallVector<engine::ExprId> values;
  std::string unbound;
};

/// Bytes of one element in memory (a bool takes one).
int64_t elementBytes(mlir::Type tensor);
DType dtypeOf(mlir::Type tensor);

} // namespace tenon::plan
