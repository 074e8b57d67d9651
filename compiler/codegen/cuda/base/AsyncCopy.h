// What warps of an sm_90 block that produce and consume tiles are built from: barriers in shared
// memory that count arrivals and bytes, copies of boxes of a matrix that complete on them, and
// shares of registers. Relies on tensor maps that KernelFrame adds and the runtime encodes.
//
// A barrier (mbarrier) is kBarrierBytes of shared memory. A phase of it ends when the number of
// arrivals that it was made for have come and all bytes that were expected in the phase have
// been written; the next one begins at once. Who waits names the parity of the phase whose end it
// waits for: 0 for the first, 1 for the second, 0 for the third. Waiting for parity 1 at a new
// barrier returns at once.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

inline constexpr int64_t kBarrierBytes = 8;
/// Of the argument that describes a matrix.
inline constexpr int64_t kTensorMapBytes = 128, kTensorMapAlignment = 64;
/// Columns of a box: 128 bytes, whose 16-byte chunk c of row r is placed at chunk c ^ (r % 8), as
/// Warpgroup.h has tiles. A box begins on a border of kTileAlignment bytes.
inline constexpr int64_t kBoxColumns = 64;

/// Makes a barrier that `arrivals` arrivals complete; by one thread, before all else.
void initBarrier(const ThreadBuilder &t, mlir::Value barrier, int64_t arrivals);
/// Shows barriers that this thread made to copies and to the cluster. Other threads may use them
/// after the next barrier() of the block, or waitForCluster() where other blocks use them.
void publishBarriers(const ThreadBuilder &t);
/// Arrives, and lets the phase wait for so many bytes (i32) more. In front of the copies.
void arriveExpecting(const ThreadBuilder &t, mlir::Value barrier, mlir::Value bytes);
/// Arrives, so many times.
void arrive(const ThreadBuilder &t, mlir::Value barrier, int64_t count = 1);
/// Waits until the phase of this parity (i32, 0 or 1) has ended: then what copies brought, and what
/// threads of the block did before they arrived, is seen.
void waitForPhase(const ThreadBuilder &t, mlir::Value barrier, mlir::Value parity);

/// Stores a word (i32 or i64) in the memory of any block of the cluster. Its bytes count for the
/// barrier, which is in the same block; threads there see the word after the phase.
void storeAsync(const ThreadBuilder &t, mlir::Value target, mlir::Value word, mlir::Value barrier);

/// Brings a tensor map (KernelFrame::tensorMap) near, so that the first copy does not wait for it.
/// By one thread.
void prefetchTensorMap(const ThreadBuilder &t, mlir::Value map);
/// Copies the box whose first element is at (`column`, `row`) (i32, may lie outside) to `shared`.
/// Its bytes, those filled with zeros too, count for `barrier`. By one thread.
void copyBox(const ThreadBuilder &t, mlir::Value map, mlir::Value column, mlir::Value row,
             mlir::Value shared, mlir::Value barrier);
/// Gives back, or asks for, registers up to `count` a thread (24 to 240, a multiple of 8). By all
/// warps of a warpgroup; asking waits until others have given back. The kernel states its threads
/// and blocks a processor. For architectures with `a`.
void releaseRegisters(const ThreadBuilder &t, int64_t count);
void takeRegisters(const ThreadBuilder &t, int64_t count);

} // namespace tenon::codegen::cuda
