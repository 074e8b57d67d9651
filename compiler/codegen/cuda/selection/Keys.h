// Elements as unsigned integers: the larger key stands first in the order of tn.top_k, equal ones
// have equal keys (0 and -0, all that are not numbers).
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

struct KeyOrder {
  KeyOrder(mlir::Type element, bool isLargestFirst);

  /// The key of a stored element, of `bits` bits in an i32 or i64.
  mlir::Value keyOf(const ThreadBuilder &t, mlir::Value stored) const;

  mlir::Type storage, key;
  int64_t bits = 32;

private:
  mlir::Value ascending(const ThreadBuilder &t, mlir::Value raw) const;

  bool isLargestFirst, isUnsigned;
};

} // namespace tenon::codegen::cuda
