// The cut of a model for some ranks that is predicted to be fastest. A walk over the operations in
// order keeps, for each combination of states of the values that are still read, the cheapest way
// there: where one value is left, as on the residual stream between blocks, few are; within a block
// all are tried. No name of a layer matters, except where the user pins one.
#pragma once

#include "compiler/shard/Costs.h"
#include "compiler/shard/Pins.h"
#include "support/Result.h"

#include <vector>

namespace tenon::shard {

struct Plan {
  int64_t ranks = 1;
  /// Of each operation that is computed at a run.
  llvm::DenseMap<mlir::Operation *, Strategy> strategies;
  /// What a rank keeps of the state of a session.
  llvm::DenseMap<mlir::Value, State> states;
  /// Products that add up in kSumParts parts on any number of ranks (Sums.h).
  llvm::DenseSet<mlir::Operation *> sums;
  double seconds = 0; ///< predicted, for the sizes of the costs
  /// Whether all combinations were kept: of some hundred at once, the dearest are given up.
  bool isExhaustive = true;
};

/// How the matrix of an operation is cut.
enum class MatrixCut : uint8_t { Whole, Columns, Rows, Batch };
MatrixCut matrixCutOf(const Graph &graph, mlir::Operation *op, const Strategy &strategy);

/// TN0105 for a pin that names no matrix or that cannot hold, with the reason. With `sums`, ranks
/// have summands of the results of these operations alone, and add them up at once.
Result<Plan> searchCuts(const Graph &graph, const Costs &costs, int64_t ranks,
                        const std::vector<Pin> &pins,
                        const llvm::DenseSet<mlir::Operation *> *sums = nullptr);

} // namespace tenon::shard
