// Steps that run only for some of the values that a size of the region may have. Relies on launches
// without blocks, and calls without rows, costing nothing (runtime/device/cuda).
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace tenon::codegen::cuda {

/// From `least` to `most`, both of them.
struct SizeRange {
  int64_t least = 0, most = 0;
};

/// Leaves the steps nothing to do where `size`, which is one of `all`, is in none of `taken`, which
/// do not overlap.
void limitSteps(llvm::MutableArrayRef<RegionStep> steps, mlir::AffineExpr size,
                const SizeRange &all, llvm::ArrayRef<SizeRange> taken);

} // namespace tenon::codegen::cuda
