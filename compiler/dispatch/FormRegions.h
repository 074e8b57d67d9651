// Decides which operations run together: contractions take their epilogues first, then rows, then
// elementwise chains; what is left runs alone. The order is by what a fusion saves.
#pragma once

#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Dispatch.h"
#include "compiler/dispatch/Grouping.h"
#include "compiler/dispatch/OpKinds.h"
#include "compiler/dispatch/Rules.h"

namespace tenon::dispatch {

/// Most operations in one region.
inline constexpr size_t kMaxOperations = 64;

/// What the steps of region formation share.
struct Formation {
  Grouping grouping;
  const CostModel &costs;
  KernelTimes kernelTimes;
  Refusals refusals;

  const target::Target &device() const { return costs.profile(); }
  void refuse(mlir::Operation *producer, mlir::Operation *consumer, const Refusal &refusal) {
    refusals.try_emplace({producer, consumer}, refusal);
  }
};

/// One file each. Every one looks at operations that are in no group yet.
/// On GPUs: sums over ranks take the residual and the norm behind them.
void formExchanges(Formation &formation, mlir::Block *block);
void formContractions(Formation &formation, mlir::Block *block);
void formAttention(Formation &formation, mlir::Block *block);
void formRows(Formation &formation, mlir::Block *block);
/// On GPUs.
void formColumns(Formation &formation, mlir::Block *block);
void formElementwise(Formation &formation, mlir::Block *block);
void formScatters(Formation &formation, mlir::Block *block);
void formSingles(Formation &formation, mlir::Block *block);

/// Elementwise operations without a group that are computed for `ops` alone, none before one that
/// it reads from: a kernel of their own, unless a loop over `ops` takes them in.
llvm::SmallVector<mlir::Operation *> sidesOf(Formation &formation,
                                             llvm::ArrayRef<mlir::Operation *> ops);
/// How many of the numbers of operations with which a group may end are left if it stores bytes
/// that what reads its result can widen: fewer are written, and they are widened as often.
size_t endsWithBytes(const Group &group, llvm::ArrayRef<size_t> closed);
/// Of sides those that widen bytes: they run in the kernel that reads them.
llvm::SmallVector<mlir::Operation *> wideningOf(llvm::ArrayRef<mlir::Operation *> sides);
/// Takes operations that widen bytes for those of a group behind the first `count` alone.
void takeWidening(Formation &formation, Group *group, size_t count);

/// Whether so few updates of a scatter may meet that a thread writes them one after another.
bool hasFewUpdates(const CostModel &costs, mlir::Operation *scatter);

/// Joins groups, after all others have formed them.
void formBundles(Formation &formation);

/// A transpose that changes the innermost dim: its operand is best read as it lies.
bool movesInnermost(mlir::Operation *op);
/// Why a GPU region should not compute `producers`, whose dims are not those of its results or that
/// a movement operation reads, where `consumers` read them; null if it should.
const Rule *refuseInlining(Formation &formation, llvm::ArrayRef<mlir::Operation *> producers,
                           llvm::ArrayRef<mlir::Operation *> consumers);
/// The same of neighbours whose values would together take so many registers that two kernels are
/// faster; null if they would not.
const Rule *refuseRegisters(Formation &formation, llvm::ArrayRef<mlir::Operation *> producers,
                            llvm::ArrayRef<mlir::Operation *> consumers);
/// An element type that the device's fused kernels compute with: any, on a GPU any float.
bool isFusedType(mlir::Type tensor, const target::Target &device);
/// A contraction that formContractions makes the root of a group.
bool isContractionRoot(mlir::Operation *op, const target::Target &device);

} // namespace tenon::dispatch
