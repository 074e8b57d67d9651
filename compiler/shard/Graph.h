// A model's function as the search for cuts sees it: what is constant, what is state, and where
// names come from. Relies on optimized `tn`.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "compiler/shard/Rules.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace tenon::shard {

class Graph {
public:
  Graph(mlir::ModuleOp module, const tn::WeightStore &weights);

  mlir::func::FuncOp function() const { return main; }
  const tn::WeightStore &store() const { return weights; }
  /// Weights, constants, and what is computed of them alone.
  bool isConstant(mlir::Value value) const { return constants.contains(value); }
  /// Those that are computed at each run, in order; without the terminator.
  llvm::ArrayRef<mlir::Operation *> operations() const { return ops; }
  /// An argument that the session keeps, and the result that replaces it.
  bool isState(mlir::Value argument) const { return states.contains(argument); }
  std::optional<unsigned> stateResult(mlir::Value argument) const;
  bool isStateResult(unsigned result) const { return stateResults.contains(result); }
  /// The weights behind a constant.
  llvm::ArrayRef<tn::WeightOp> weightsOf(mlir::Value constant) const;
  /// The operand with the matrix of an operation: the constant of a product or a convolution, or
  /// the table of a gather. Nothing for others.
  std::optional<unsigned> matrixOf(mlir::Operation *op) const;

  /// The cut that what reads the value asks for along a dim: whole heads, or the parts that slices
  /// take. Nothing where nobody asks.
  std::optional<Cut> askedCut(mlir::Value value, int64_t dim, int64_t ranks) const;
  /// Cuts that may begin at an operation whose operands are all whole: of an operand.
  llvm::SmallVector<std::pair<unsigned, Cut>> originsOf(mlir::Operation *op, int64_t ranks) const;

private:
  using Asked = llvm::DenseMap<std::pair<mlir::Value, int64_t>, std::optional<Cut>>;
  std::optional<Cut> asked(mlir::Value value, int64_t dim, int64_t ranks, Asked &known) const;
  std::optional<Cut> askedBy(mlir::OpOperand &use, int64_t dim, int64_t ranks, Asked &known) const;
  std::optional<Cut> askedBySlices(mlir::Value value, int64_t dim, int64_t ranks,
                                   Asked &known) const;

  mlir::func::FuncOp main;
  const tn::WeightStore &weights;
  llvm::DenseSet<mlir::Value> constants;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Value, unsigned> states;
  llvm::DenseSet<unsigned> stateResults;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<tn::WeightOp, 1>> roots;
  mutable llvm::DenseMap<int64_t, Asked> askedOfRanks;
};

/// "blk.7.attn_q" as "blk.*.attn_q": numbers that stand alone between dots, slashes or the ends.
std::string foldedName(llvm::StringRef name);

} // namespace tenon::shard
