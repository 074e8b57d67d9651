// Batched matrix products for the reference: blocked, packed and threaded, with exact order of
// sums. Floats are accumulated in double over the whole depth, integers modulo 2^64; both without
// fused multiply-add, so that every x86 machine gives the same bits.
#pragma once

#include "support/threads/ThreadPool.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tenon::reference {

/// rows x depth times depth x columns, `batches` times.
struct ProductShape {
  int64_t batches = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
};

/// Which part of an operand a pack function is asked for: `lines` rows (or columns) from `line` on,
/// at the depths [depth, depth + depths).
struct PackRequest {
  int64_t batch;
  int64_t line;
  int64_t lines;
  int64_t depth;
  int64_t depths;
  /// Element (line i, depth k) goes to out[k * stride + i].
  int64_t stride;
};

/// T is double or uint64_t. `packRows` and `packColumns` read the operands, `store` gets `count`
/// results of a row from a column on. All are called from several threads at once.
template <typename T>
void multiply(ThreadPool &pool, const ProductShape &shape,
              llvm::function_ref<void(const PackRequest &, T *out)> packRows,
              llvm::function_ref<void(const PackRequest &, T *out)> packColumns,
              llvm::function_ref<void(int64_t batch, int64_t row, int64_t column, int64_t count,
                                      const T *values)>
                  store);

} // namespace tenon::reference
