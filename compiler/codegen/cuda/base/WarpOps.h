// What the lanes of a warp do together, and integers by their bits: what scans, selections and
// sorts are built from. Relies on all lanes of the warp being there.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

/// The value of lane ^ mask, of 32 or 64 bits.
mlir::Value shuffleXor(const ThreadBuilder &t, mlir::Value value, int64_t mask);
/// The value of 32 or 64 bits of the lane so many before; the own where there is none.
mlir::Value shuffleUp(const ThreadBuilder &t, mlir::Value value, int64_t distance);
/// The lanes (a bit each) where a condition holds; and those whose i32 is the same as the own one.
mlir::Value ballot(const ThreadBuilder &t, mlir::Value condition);
mlir::Value lanesOfSame(const ThreadBuilder &t, mlir::Value value);
/// The sum of the lanes' i32.
mlir::Value sumOfWarp(const ThreadBuilder &t, mlir::Value value);

mlir::Value either(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
mlir::Value both(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
mlir::Value isNot(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
mlir::Value bitOr(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
mlir::Value bitXor(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
mlir::Value shiftLeft(const ThreadBuilder &t, mlir::Value a, mlir::Value count);
mlir::Value shiftRight(const ThreadBuilder &t, mlir::Value a, mlir::Value count);
mlir::Value bitCount(const ThreadBuilder &t, mlir::Value a);
/// Unsigned.
mlir::Value isAbove(const ThreadBuilder &t, mlir::Value a, mlir::Value b);
mlir::Value isAtLeast(const ThreadBuilder &t, mlir::Value a, mlir::Value b);

/// While `goesOn` holds of the carried values, `body` gives the next.
ThreadBuilder::Values
loopWhile(const ThreadBuilder &t, mlir::ValueRange inits,
          llvm::function_ref<mlir::Value(const ThreadBuilder &, mlir::ValueRange)> goesOn,
          llvm::function_ref<ThreadBuilder::Values(const ThreadBuilder &, mlir::ValueRange)> body);

} // namespace tenon::codegen::cuda
