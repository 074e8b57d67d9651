// Steps that run only for some of the values that a size of the region may have. Relies on launches
// without blocks, and calls without rows, costing nothing (runtime/device/cuda).
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "mlir/IR/AffineExpr.h"

#include <cstdint>

namespace tenon::codegen::cuda {

/// From `least` to `most`, both of them.
struct SizeRange {
  int64_t least = 0, most = 0;
};

/// Leaves the steps nothing to do where `size`, which is one of `all`, is not in `taken`.
void limitSteps(llvm::MutableArrayRef<RegionStep> steps, mlir::AffineExpr size,
                const SizeRange &all, const SizeRange &taken);

} // namespace tenon::codegen::cuda
