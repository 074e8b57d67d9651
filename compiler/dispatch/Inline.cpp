// Whether values of other dims than a GPU region's are computed where they are read, as often as
// they are read. Relies on the cost model counting how often that is.
#include "compiler/dispatch/FormRegions.h"

using namespace mlir;

namespace tenon::dispatch {
bool movesInnermost(Operation *op) {
  tn::TransposeOp transpose = dyn_cast<tn::TransposeOp>(op);
  return transpose && transpose.getPermutation().back() + 1 != transpose.getType().getRank();
}

const Rule *refuseInlining(Formation &formation, ArrayRef<Operation *> producers,
                           ArrayRef<Operation *> consumers) {
  bool computes = llvm::any_of(producers, isElementwise);
  for (Operation *producer : producers) {
    for (Operation *user : producer->getUsers()) {
      if (llvm::is_contained(producers, user)) {
        continue;
      }
      if (!llvm::is_contained(consumers, user)) {
        return &kSecondResult;
      }
      if (computes && movesInnermost(user)) {
        return &kMovementReadsInputs;
      }
    }
  }
  Cost apart = formation.costs.costOf(producers);
  apart += formation.costs.costOf(consumers);
  SmallVector<Operation *> both(producers);
  both.append(consumers.begin(), consumers.end());
  return formation.costs.costOf(both).microseconds > apart.microseconds ? &kRecompute : nullptr;
}

} // namespace tenon::dispatch
