// A ring of stages in shared memory between a thread that fills them and warps that read them.
// Relies on AsyncCopy.h for the barriers and on Warpgroup.h for products; the stages begin the
// shared memory that the ring is given.
#pragma once

#include "compiler/codegen/cuda/base/AsyncCopy.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"

namespace tenon::codegen::cuda {

/// What warpgroups multiply of each stage: A, kGroupRows rows for each of them, and behind it B.
struct StageOperands {
  mlir::Type element;
  RightOrder order = RightOrder::DepthInner; ///< of B
  int64_t groups = 1, columns = 0;

  int64_t aBytes() const { return groups * kGroupRows * kTileColumns * 2; }
};

struct StageRing {
  using Value = mlir::Value;
  using Values = ThreadBuilder::Values;

  /// A place in the ring: its stage, and its phase parity.
  struct PipelineState {
    Value stage, parity;

    Values values() const { return {stage, parity}; }
    static PipelineState of(mlir::ValueRange values) { return {values[0], values[1]}; }
  };

  int64_t stages = 0, stageBytes = 0;
  /// Pointers to shared memory: the stages, and two barriers for each.
  Value memory, barriers;

  int64_t bytes() const { return stages * stageBytes; }
  int64_t barrierBytes() const { return 2 * stages * kBarrierBytes; }
  /// By one thread; `readers` arrivals release a stage.
  void initBarriers(const ThreadBuilder &t, int64_t readers) const;
  PipelineState first(const ThreadBuilder &t) const { return {t.i32(0), t.i32(0)}; }
  PipelineState next(const ThreadBuilder &t, const PipelineState &state) const;
  Value at(const ThreadBuilder &t, Value stage) const;
  /// The barrier of a stage that tells that it is full, and that it is read.
  Value full(const ThreadBuilder &t, Value stage) const;
  Value empty(const ThreadBuilder &t, Value stage) const;
  /// Waits until the stage may be filled (the first time at once); until it is full.
  void producerAcquire(const ThreadBuilder &t, const PipelineState &state) const;
  void consumerWait(const ThreadBuilder &t, const PipelineState &state) const;
  /// Releases the stage before `stage`.
  void consumerRelease(const ThreadBuilder &t, Value stage) const;
  /// The accumulators of warpgroup `group` (i32) over the next `steps` stages, the last of them
  /// under way (finishStages). The thread for which `releases` (null: none) holds releases all but
  /// the last.
  Values multiply(const ThreadBuilder &t, const StageOperands &operands, Value group, int64_t steps,
                  Value releases, PipelineState &state) const;
};

} // namespace tenon::codegen::cuda
