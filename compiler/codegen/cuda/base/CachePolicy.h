// Reads of global memory that tell the caches what to keep.
//
// Of tensors that no cache holds the second-level cache is asked to keep what is read rather than
// what is written: results then leave it in the order in which they came. On an H200 that is 1 to
// 2.5 % of rows of any length (docs/measurements), and what other kernels have in the cache comes
// back after it as after any other kernel. Relies on sm_80 or later.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

/// 16 bytes that are read once, as four i32: they take no room in the first-level cache (two
/// percent of a decode step on an H200).
mlir::Value loadOnce(const ThreadBuilder &t, mlir::Value global);

/// The policy (i64) of reads that the second-level cache keeps.
mlir::Value keepingPolicy(const ThreadBuilder &t);
/// 16 bytes by it, as four i32.
mlir::Value loadKept(const ThreadBuilder &t, mlir::Value global, mlir::Value policy);
/// Starts the copy of 16 bytes to shared memory (NVVM::CpAsyncOp): the first `bytes` (i32), then
/// zeros. `shared` must not be a sum of which ptxas knows that one part is the same for the warp:
/// its version 13.0 encodes that as an illegal instruction (`hiddenZero`).
void copyKept(const ThreadBuilder &t, mlir::Value shared, mlir::Value global, mlir::Value bytes,
              mlir::Value policy);
/// 0 (i32), but for all that ptxas knows different for each thread; `thread` is any i32. By all
/// threads of a warp.
mlir::Value hiddenZero(const ThreadBuilder &t, mlir::Value thread);

} // namespace tenon::codegen::cuda
