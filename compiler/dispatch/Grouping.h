// The partition of a function's operations into groups that will become regions. Keeps every group
// contiguous in the block and the block in a valid order, so that a merge is legal exactly when it
// makes no cycle.
#pragma once

#include "compiler/dispatch/Rules.h"
#include "compiler/graph/DataSizes.h"
#include "compiler/graph/Tn.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>
#include <string>

namespace tenon::dispatch {

/// Units looked through between two that may be joined: bounds the work for hostile graphs.
inline constexpr size_t kFarthest = 4096;

/// Operations that will run as one kernel, in block order.
struct Group {
  llvm::StringRef strategy;
  /// The contraction, reduction or norm the group is built around; null for elementwise groups.
  mlir::Operation *root = nullptr;
  llvm::SmallVector<mlir::Operation *> ops;
  /// Why the group is what it is, in a sentence.
  std::string reason;
};

class Grouping {
public:
  explicit Grouping(mlir::Block *functionBody);

  /// Makes a group of one op that is in no group yet.
  Group *create(mlir::Operation *op, llvm::StringRef strategy, mlir::Operation *root);
  /// Null if the op is in no group.
  Group *groupOf(mlir::Operation *op) const { return groups.lookup(op); }

  /// Adds an op without a group that reads from the group, or that the group reads from. If that
  /// would make a cycle, or they are too far apart to tell, nothing changes and the rule comes
  /// back; else null.
  const Rule *absorbConsumer(Group *group, mlir::Operation *op);
  const Rule *absorbProducer(Group *group, mlir::Operation *op);
  /// Moves all operations of `consumers` into `producers`, from which they read, and leaves it
  /// empty; fails as absorbing does.
  const Rule *merge(Group *producers, Group *consumers);

  /// Gives up the operations of a group behind the first `count`.
  void truncate(Group *group, size_t count);

  /// Whether `a` came first in the model; the block's own order changes while groups form.
  bool cameFirst(mlir::Operation *a, mlir::Operation *b) const {
    return positions.lookup(a) < positions.lookup(b);
  }

  /// The groups in block order.
  llvm::SmallVector<Group *> inOrder() const;

private:
  using Unit = llvm::ArrayRef<mlir::Operation *>;

  Unit unitOf(mlir::Operation *op) const;
  bool waitsFor(Unit unit, llvm::function_ref<bool(mlir::Operation *)> isAwaited) const;
  const Rule *joinUnits(Unit first, Unit second);

  mlir::Block *block;
  /// What binds the symbols that data decides.
  llvm::MapVector<unsigned, mlir::Operation *> binders;
  llvm::DenseMap<mlir::Operation *, size_t> positions;
  llvm::DenseMap<mlir::Operation *, Group *> groups;
  std::vector<std::unique_ptr<Group>> owned;
};

/// The results of `ops` that are used by other operations.
llvm::SmallVector<mlir::Value> escapingResults(llvm::ArrayRef<mlir::Operation *> ops);
/// The operands of `ops` that are defined by other operations, each once, in order of use.
llvm::SmallVector<mlir::Value> outsideOperands(llvm::ArrayRef<mlir::Operation *> ops);

/// Weights, constants, packs, reshapes and the return: never in a group.
bool staysOutside(mlir::Operation *op);
/// A constant of one element, which regions carry inside.
bool isScalarConstant(mlir::Operation *op);

} // namespace tenon::dispatch
