// How operations pass cuts: a factor rule for each, as MLIR's ShardingInterface has it. A factor is
// one loop of the operation; it is parallel, a reduction, or must not be cut. Relies on `tn` as the
// passes before targets leave it.
#pragma once

#include "compiler/shard/State.h"
#include "mlir/IR/Operation.h"

namespace tenon::shard {

/// What an operation takes of each operand, and what each rank then has of the results.
struct Strategy {
  llvm::SmallVector<State, 4> operands;
  llvm::SmallVector<State, 1> results;
  bool operator==(const Strategy &) const = default;
};

/// The loops of an operation: which of them goes along each dim of its operands and results.
struct FactorRule {
  enum class Kind : uint8_t { Parallel, Reduction };
  static constexpr int64_t kNone = -1; ///< a dim that must not be cut, or one of size 1
  llvm::SmallVector<Kind> factors;
  llvm::SmallVector<llvm::SmallVector<int64_t>> operands, results;
};

/// Nothing for an operation without a rule: all ranks compute all of it. What moves elements along
/// a cut dim (reshape, concat, slice) and attention have rules of their own beside the factors.
std::optional<FactorRule> factorRuleOf(mlir::Operation *op);
bool hasRule(mlir::Operation *op);

/// What the operation does with an operand that is cut so; nothing where it cannot. `ranks` decides
/// where heads are fewer than ranks.
std::optional<Strategy> followCut(mlir::Operation *op, unsigned operand, const Cut &cut,
                                  int64_t ranks);
/// The same with an operand that is a summand; the operation is linear in it.
std::optional<Strategy> followPartial(mlir::Operation *op, unsigned operand);
/// All whole.
Strategy replicatedStrategy(mlir::Operation *op);

/// The cut of a reshape's other side, of which each piece divides: of the result for one of the
/// operand, or the other way round.
std::optional<Cut> cutThroughReshape(llvm::ArrayRef<mlir::AffineExpr> from,
                                     llvm::ArrayRef<mlir::AffineExpr> to, const Cut &cut,
                                     int64_t ranks);

/// The heads of attention: of the queries one dim, of keys and values another; nothing for another
/// operation.
struct Heads {
  llvm::SmallVector<std::pair<unsigned, int64_t>, 4> queries, keys; ///< operand and dim
  int64_t result = 0;                                               ///< dim
  int64_t count = 0, keyCount = 0;
};
std::optional<Heads> headsOf(mlir::Operation *op);
/// How keys are cut where queries are cut into whole heads; nothing where that cannot be.
std::optional<State> keyState(const Heads &heads, int64_t dim, int64_t ranks);

} // namespace tenon::shard
