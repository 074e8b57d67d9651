// Sums within warps by the warp's own instructions, over warps through shared memory.
#include "compiler/codegen/cuda/selection/Team.h"

#include "compiler/codegen/cuda/base/WarpOps.h"

using namespace mlir;

namespace tenon::codegen::cuda {

void Team::sync(const ThreadBuilder &t) const { isWarp() ? t.warpBarrier() : t.barrier(); }

Value Team::array(const ThreadBuilder &t, Value scratch, Value round) const {
  return t.offset(scratch, t.i32Type(), t.mul(t.bitAnd(round, t.i32(1)), warps()));
}

Value Team::total(const ThreadBuilder &t, Value own, Value scratch, Value round) const {
  Value sum = sumOfWarp(t, own);
  if (isWarp()) {
    return sum;
  }
  Value sums = array(t, scratch, round), warp = t.div(t.thread(), kWarp);
  t.when(t.isEqual(t.lane(), t.i32(0)),
         [&](const ThreadBuilder &b) { b.store(sum, b.offset(sums, b.i32Type(), warp), 4); });
  t.barrier();
  Value all = t.i32(0);
  for (int64_t i = 0; i < warps(); ++i) {
    all = t.add(all, t.load(t.i32Type(), t.offset(sums, t.i32Type(), i), 4));
  }
  return all;
}

std::pair<Value, Value> Team::prefix(const ThreadBuilder &t, Value own, Value scratch,
                                     Value round) const {
  Value sum = own, lane = t.lane();
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    Value other = shuffleUp(t, sum, distance);
    sum = t.select(t.isLess(lane, t.i32(distance)), sum, t.add(other, sum));
  }
  Value before = t.sub(sum, own);
  if (isWarp()) {
    return {before, t.shuffleFrom(sum, kWarp - 1)};
  }
  Value sums = array(t, scratch, round), warp = t.div(t.thread(), kWarp);
  t.when(t.isEqual(lane, t.i32(kWarp - 1)),
         [&](const ThreadBuilder &b) { b.store(sum, b.offset(sums, b.i32Type(), warp), 4); });
  t.barrier();
  Value all = t.i32(0);
  for (int64_t i = 0; i < warps(); ++i) {
    before =
        t.add(before, t.select(t.isLess(t.i32(i), warp),
                               t.load(t.i32Type(), t.offset(sums, t.i32Type(), i), 4), t.i32(0)));
    all = t.add(all, t.load(t.i32Type(), t.offset(sums, t.i32Type(), i), 4));
  }
  return {before, all};
}

} // namespace tenon::codegen::cuda
