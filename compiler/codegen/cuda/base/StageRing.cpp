// Relies on barriers lying behind each other: those of full stages, then those of read ones.
#include "compiler/codegen/cuda/base/StageRing.h"

using namespace mlir;

namespace tenon::codegen::cuda {

void StageRing::initBarriers(const ThreadBuilder &t, int64_t readers) const {
  for (int64_t stage = 0; stage < stages; ++stage) {
    initBarrier(t, full(t, t.i32(stage)), 1);
    initBarrier(t, empty(t, t.i32(stage)), readers);
  }
}

StageRing::PipelineState StageRing::next(const ThreadBuilder &t, const PipelineState &state) const {
  Value stage = t.add(state.stage, 1), isLast = t.isEqual(stage, t.i32(stages));
  return {t.select(isLast, t.i32(0), stage),
          t.select(isLast, t.sub(t.i32(1), state.parity), state.parity)};
}

Value StageRing::at(const ThreadBuilder &t, Value stage) const {
  return t.offset(memory, t.builder.getI8Type(), t.mul(stage, stageBytes));
}

Value StageRing::full(const ThreadBuilder &t, Value stage) const {
  return t.offset(barriers, t.i64Type(), stage);
}

Value StageRing::empty(const ThreadBuilder &t, Value stage) const {
  return t.offset(barriers, t.i64Type(), t.add(stage, stages));
}

void StageRing::producerAcquire(const ThreadBuilder &t, const PipelineState &state) const {
  waitForPhase(t, empty(t, state.stage), t.sub(t.i32(1), state.parity));
}

void StageRing::consumerWait(const ThreadBuilder &t, const PipelineState &state) const {
  waitForPhase(t, full(t, state.stage), state.parity);
}

void StageRing::consumerRelease(const ThreadBuilder &t, Value stage) const {
  arrive(t, empty(t, t.rem(t.add(stage, stages - 1), stages)));
}

ThreadBuilder::Values StageRing::multiply(const ThreadBuilder &t, const StageOperands &operands,
                                          Value group, int64_t steps, Value releases,
                                          PipelineState &state) const {
  Values carried = state.values();
  carried.append(kGroupRows * operands.columns / kWarpgroup, t.f32(0));
  carried = t.loop(t.i32(0), t.i32(steps), t.i32(1), carried,
                   [&](const ThreadBuilder &c, Value step, ValueRange values) {
                     PipelineState now = PipelineState::of(values);
                     consumerWait(c, now);
                     Value stage = at(c, now.stage);
                     Value a = c.offset(stage, c.builder.getI8Type(),
                                        c.mul(group, kGroupRows * kTileColumns * 2));
                     Value b = c.offset(stage, c.builder.getI8Type(), operands.aBytes());
                     Values accumulators(values.drop_front(2));
                     accumulators = addStage(c, operands.element, a, b, operands.order,
                                             operands.columns, step, accumulators);
                     if (releases) {
                       // Its own products have ended when those of the next one have begun.
                       c.when(c.bitAnd(releases, c.isLess(c.i32(0), step)),
                              [&](const ThreadBuilder &d) { consumerRelease(d, now.stage); });
                     }
                     Values result = next(c, now).values();
                     result.append(accumulators);
                     return result;
                   });
  state = PipelineState::of(carried);
  return Values(ArrayRef<Value>(carried).drop_front(2));
}

} // namespace tenon::codegen::cuda
