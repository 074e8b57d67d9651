// The threads that work on one row together: a warp, or a whole block.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

class Team {
public:
  explicit Team(int64_t threads) : threads(threads) {}

  bool isWarp() const { return threads == kWarp; }
  int64_t warps() const { return threads / kWarp; }
  /// Shared memory that `total` and `prefix` need.
  int64_t scratchBytes() const { return isWarp() ? 0 : 2 * warps() * 4; }
  /// The thread's number (i32).
  mlir::Value thread(const ThreadBuilder &t) const { return t.rem(t.thread(), threads); }
  /// What threads stored before is visible to all after.
  void sync(const ThreadBuilder &t) const;
  /// The sum of the threads' i32. Calls that follow each other have another `round` (i32).
  mlir::Value total(const ThreadBuilder &t, mlir::Value own, mlir::Value scratch,
                    mlir::Value round) const;
  /// The sum of the i32 of the threads before the own one, and that of all.
  std::pair<mlir::Value, mlir::Value> prefix(const ThreadBuilder &t, mlir::Value own,
                                             mlir::Value scratch, mlir::Value round) const;

  const int64_t threads;

private:
  /// The array of the warps' sums for this round: two take turns, so that a barrier is enough.
  mlir::Value array(const ThreadBuilder &t, mlir::Value scratch, mlir::Value round) const;
};

} // namespace tenon::codegen::cuda
