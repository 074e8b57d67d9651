// Rows of at most as many elements as a warp has lanes: a lane holds one, and a bitonic network of
// shuffles sorts them in registers, several short rows side by side.
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/selection/TopK.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// An element on its way: what stands first is the largest of these pairs. Keys of up to 16 bits
/// share a word with the index.
struct Ranked {
  Value key, index;
};

Ranked swapped(const ThreadBuilder &t, const Ranked &own, int64_t mask, Value isUpper) {
  Value otherKey = shuffleXor(t, own.key, mask);
  if (!own.index) {
    Value isMore = isAbove(t, otherKey, own.key);
    return {t.select(t.isEqual(isMore, isUpper), own.key, otherKey), {}};
  }
  Value otherIndex = shuffleXor(t, own.index, mask);
  Value isMore = either(t, isAbove(t, otherKey, own.key),
                        both(t, t.isEqual(otherKey, own.key), t.isLess(otherIndex, own.index)));
  Value stays = t.isEqual(isMore, isUpper);
  return {t.select(stays, own.key, otherKey), t.select(stays, own.index, otherIndex)};
}

/// The first stands in the first lane of its row in the end.
Ranked sortLanes(const ThreadBuilder &t, Ranked own, Value lane, int64_t lanes) {
  for (int64_t half = 1; half < lanes; half *= 2) {
    for (int64_t distance = half; distance > 0; distance /= 2) {
      // The first step of a merge pairs lanes that mirror each other.
      int64_t mask = distance == half ? 2 * half - 1 : distance;
      Value isUpper = isNot(t, t.bitAnd(lane, t.i32(distance)), t.i32(0));
      own = swapped(t, own, mask, isUpper);
    }
  }
  return own;
}

} // namespace

void emitSortedLanes(RegionBuilder &region, const TopKWork &work) {
  constexpr int64_t threads = 128;
  int64_t lanes = llvm::PowerOf2Ceil(std::max<int64_t>(work.longest, 1)), rows = threads / lanes;
  KernelFrame frame(region, {work.input, work.values, work.indices}, 1, threads);
  ThreadBuilder t = frame.code();
  const KeyOrder &order = work.order;
  Value thread = t.thread(), lane = t.rem(thread, lanes);
  Value row = t.add(t.mul(t.toI64(t.block()), rows), t.toI64(t.div(thread, lanes)));
  Value count = frame.size64(work.rows()), length = frame.size64(work.length);
  Value inner = frame.size64(work.inner);
  Value isRow = t.isLess(row, count);
  Value isReal = both(t, isRow, t.isLess(t.toI64(lane), length));
  Value none = arith::ConstantOp::create(t.builder, t.location, t.builder.getZeroAttr(order.key));
  Value key = t.choose(
      isReal,
      [&](const ThreadBuilder &b) -> Values {
        Value start = rowStart(b, row, length, inner);
        Value place = b.add(start, b.mul(b.toI64(lane), inner));
        Value from = b.offset(frame.buffer(0), order.storage, place);
        return {order.keyOf(b, b.load(order.storage, from, byteSize(order.storage)))};
      },
      [&](const ThreadBuilder &) -> Values { return {none}; })[0];
  bool isShort = order.bits <= 16;
  Value last = t.i32(kWarp - 1);
  Ranked own{key, lane};
  if (isShort) {
    own = {bitOr(t, t.mul(key, kWarp), t.sub(last, lane)), {}};
  }
  own = sortLanes(t, own, lane, lanes);
  Value index = isShort ? t.sub(last, t.bitAnd(own.key, last)) : own.index;
  Value stores = both(t, isRow, t.isLess(t.toI64(lane), frame.size64(work.wanted)));
  t.when(stores, [&](const ThreadBuilder &b) {
    TopKResults(b, frame, work, row, 0, 1).store(b, lane, index);
  });
  frame.finish(work.rows().ceilDiv(rows));
}

} // namespace tenon::codegen::cuda
