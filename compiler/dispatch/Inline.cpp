// What the cost model decides on a GPU: whether values of other dims than a region's are computed
// where they are read, and whether one kernel of neighbours has the registers for both. Relies on
// the model counting how often each is read.
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
  CostModel::BothWays ways = formation.costs.compare(producers, consumers);
  if (ways.fused.microseconds <= ways.apart.microseconds) {
    return nullptr;
  }
  bool byRegisters =
      ways.fused.microseconds - ways.fused.lostMicroseconds <= ways.apart.microseconds;
  return byRegisters ? &kRegisters : &kRecompute;
}

const Rule *refuseRegisters(Formation &formation, ArrayRef<Operation *> producers,
                            ArrayRef<Operation *> consumers) {
  if (!formation.device().isGpu()) {
    return nullptr;
  }
  CostModel::BothWays ways = formation.costs.compare(producers, consumers);
  bool isSlower = ways.fused.microseconds > ways.apart.microseconds;
  return isSlower && ways.fused.lostMicroseconds > 0 ? &kRegisters : nullptr;
}

} // namespace tenon::dispatch
