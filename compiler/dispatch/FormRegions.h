// Decides which operations run together: contractions take their epilogues first, then rows, then
// elementwise chains; what is left runs alone. The order is by what a fusion saves.
#pragma once

#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Grouping.h"
#include "compiler/dispatch/Rules.h"

namespace tenon::dispatch {

/// Most operations in one region.
inline constexpr size_t kMostOperations = 64;

/// What the steps of region formation share.
struct Formation {
  Grouping grouping;
  const CostModel &costs;
  Refusals refusals;

  const DeviceProfile &device() const { return costs.profile(); }
  void refuse(mlir::Operation *producer, mlir::Operation *consumer, const Rule &rule) {
    refusals.try_emplace({producer, consumer}, &rule);
  }
};

/// One file each. Every one looks at operations that are in no group yet.
void formContractions(Formation &formation, mlir::Block *block);
void formRows(Formation &formation, mlir::Block *block);
void formElementwise(Formation &formation, mlir::Block *block);
void formSingles(Formation &formation, mlir::Block *block);

/// True for the elementwise operations of `tn`, which have one result.
bool isElementwise(mlir::Operation *op);
/// transpose, slice and broadcast.
bool isMovement(mlir::Operation *op);
/// The dims of the only result.
tn::Dims resultDims(mlir::Operation *op);
/// An element type that the device's fused kernels compute with: F32, on a GPU any float.
bool isFusedType(mlir::Type tensor, const DeviceProfile &device);
/// A contraction that formContractions makes the root of a group.
bool isContractionRoot(mlir::Operation *op, const DeviceProfile &device);
/// A conv with one input channel a group.
bool isDepthwise(tn::ConvOp conv);

} // namespace tenon::dispatch
