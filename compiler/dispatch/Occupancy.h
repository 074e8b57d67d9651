// What a generated kernel takes of a GPU's multiprocessors: registers, how many threads they leave
// room for, and what that costs. Relies on codegen laying elementwise kernels out by Strips.h and
// rows by RowReductionConfig.h; no toolkit is asked.
#pragma once

#include "compiler/graph/Tn.h"

namespace tenon::dispatch {

class CostModel;

struct Occupancy {
  int64_t registers = 0; ///< that a thread wants; 0 of kernels that are not estimated
  int64_t percent = 0;   ///< threads at once, of those that a multiprocessor may hold
  /// Bytes that all threads together put aside in memory for want of registers, and read again.
  double spilled = 0;
  /// What is reached of the bandwidth of reading.
  double readRate = 1;
};

/// Of `ops` as one elementwise kernel or one of rows; nothing of other kinds.
Occupancy occupancyOf(llvm::ArrayRef<mlir::Operation *> ops, const CostModel &costs);

} // namespace tenon::dispatch
