// The ring of tiles of keys and values, and the warp that fills it. Relies on
// AttentionStreamStep.cpp for the warpgroups that multiply, and on all sizes but the batch's being
// constants.
#include "compiler/codegen/cuda/attention/AttentionStream.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// What is added to scores is finite from here on: the lowest float would become infinite with the
/// scale taken out of it, and a row whose keys are all masked needs differences of scores.
constexpr double kLowestMask = -0x1p126;

} // namespace

int64_t StreamKernel::maskOffset() const {
  return queriesOffset() + kStreamGroups * 2 * kGroupRows * kTileColumns * 2;
}

int64_t StreamKernel::marksOffset() const {
  return maskOffset() + (p.mask ? l.stages / 2 * l.tileKeys * 4 : 0);
}

int64_t StreamKernel::barriersOffset() const {
  return llvm::alignTo(marksOffset() + (p.mask ? l.stages / 2 * 4 : 0), kBarrierBytes);
}

int64_t StreamKernel::sharedBytes() const {
  return barriersOffset() + (2 * l.stages + 3 * kStreamGroups) * kBarrierBytes;
}

Value StreamKernel::bytesAt(const ThreadBuilder &t, int64_t offset) const {
  return t.offset(shared, t.builder.getI8Type(), offset);
}

Value StreamKernel::tileAt(const ThreadBuilder &t, Value stage) const {
  return t.offset(shared, t.builder.getI8Type(), t.mul(stage, l.tileBytes()));
}

Value StreamKernel::full(const ThreadBuilder &t, Value stage) const {
  return t.offset(bytesAt(t, barriersOffset()), t.i64Type(), stage);
}

Value StreamKernel::empty(const ThreadBuilder &t, Value stage) const {
  return t.offset(bytesAt(t, barriersOffset() + l.stages * kBarrierBytes), t.i64Type(), stage);
}

/// Of this warpgroup's two places for queries.
Value StreamKernel::queriesAt(const ThreadBuilder &t, Value buffer) const {
  Value place = t.add(t.mul(group, 2), buffer);
  return t.offset(bytesAt(t, queriesOffset()), element, t.mul(place, kGroupRows * kTileColumns));
}

Value StreamKernel::queriesFull(const ThreadBuilder &t, Value buffer) const {
  return t.offset(bytesAt(t, barriersOffset() + 2 * l.stages * kBarrierBytes), t.i64Type(),
                  t.add(t.mul(group, 2), buffer));
}

/// The barrier by which a warpgroup is told that it may begin products.
Value StreamKernel::orderBarrier(const ThreadBuilder &t, Value number) const {
  int64_t first = barriersOffset() + 2 * (l.stages + kStreamGroups) * kBarrierBytes;
  return t.offset(bytesAt(t, first), t.i64Type(), number);
}

/// What is added to the scores of the keys whose values are in this stage.
Value StreamKernel::maskAt(const ThreadBuilder &t, Value stage) const {
  return t.offset(bytesAt(t, maskOffset()), t.f32Type(), t.mul(t.div(stage, 2), l.tileKeys));
}

/// A word that is 0 if nothing but zeros is added.
Value StreamKernel::markAt(const ThreadBuilder &t, Value stage) const {
  return t.offset(bytesAt(t, marksOffset()), t.i32Type(), t.div(stage, 2));
}

/// Of a matrix in which so many heads share one.
StreamKernel::Corner StreamKernel::cornerOf(const ThreadBuilder &t, const StreamMatrix &m,
                                            Value head, int64_t sharing) const {
  Value batch = t.div(head, l.headsOfBatch), own = t.div(t.rem(head, l.headsOfBatch), sharing);
  Value row = t.add(t.mul(batch, m.rowsOfBatch), t.mul(own, m.rowsOfHead));
  return {t.add(row, m.firstRow), t.add(t.mul(own, m.columnsOfHead), m.firstColumn)};
}

/// At most once around the ring.
StreamKernel::PipelineState StreamKernel::advance(const ThreadBuilder &t,
                                                  const PipelineState &state, Value stages) const {
  Value next = t.add(state.stage, stages), isAround = t.isLess(t.i32(l.stages - 1), next);
  return {t.select(isAround, t.sub(next, t.i32(l.stages)), next),
          t.select(isAround, t.sub(t.i32(1), state.parity), state.parity)};
}

StreamKernel::PipelineState
StreamKernel::advance(const ThreadBuilder &t, const PipelineState &state, int64_t stages) const {
  return advance(t, state, t.i32(stages));
}

Values StreamKernel::forHeads(const ThreadBuilder &t, ValueRange inits,
                              ThreadBuilder::LoopBody body) {
  return t.loop(t.block(), heads, t.i32(l.blocks), inits, body);
}

void StreamKernel::place(const ThreadBuilder &t) {
  auto map = [&](const StridedTensor &tensor, const StreamMatrix &m, int64_t boxRows) {
    auto size = [&](int64_t value) { return getAffineConstantExpr(value, t.builder.getContext()); };
    return frame.tensorMap(tensor.buffer, m.rows, size(m.columns), size(m.rowElements), boxRows);
  };
  qMap = map(p.q, l.q, kGroupRows);
  kMap = map(p.k, l.k, l.tileKeys);
  vMap = map(p.v, l.v, l.tileKeys);
  bool isShort = l.lastKeys() != l.tileKeys;
  kLastMap = isShort ? map(p.k, l.k, l.lastKeys()) : Value();
  vLastMap = isShort ? map(p.v, l.v, l.lastKeys()) : Value();
  heads = frame.size32(p.batches * p.heads);
  thread = t.thread();
  shared = frame.dynamicShared(kTileAlignment);
  t.when(t.isEqual(thread, t.i32(0)), [&](const ThreadBuilder &c) {
    for (int64_t stage = 0; stage < l.stages; ++stage) {
      // The mask arrives with values: all threads have read it when products with these are done.
      initBarrier(c, full(c, c.i32(stage)), p.mask && stage % 2 == 1 ? 2 : 1);
      initBarrier(c, empty(c, c.i32(stage)), kStreamGroups * kWarpsOfGroup);
    }
    Value queries = bytesAt(c, barriersOffset() + 2 * l.stages * kBarrierBytes);
    for (int64_t i = 0; i < 2 * kStreamGroups; ++i) {
      initBarrier(c, c.offset(queries, c.i64Type(), i), 1);
    }
    for (int64_t i = 0; i < kStreamGroups; ++i) {
      initBarrier(c, orderBarrier(c, c.i32(i)), 1);
    }
    publishBarriers(c);
    arrive(c, orderBarrier(c, c.i32(0)));
    for (Value each : {qMap, kMap, vMap}) {
      prefetchTensorMap(c, each);
    }
  });
  if (l.hasTail()) {
    clearTails(t);
  }
  t.barrier();
}

/// Stages of a head's last tile are always the same, and get only the rows that there are: those
/// behind stay zeros, so that a probability of 0 is multiplied with a number.
void StreamKernel::clearTails(const ThreadBuilder &t) const {
  int64_t chunks = (l.lastColumns() - l.lastKeys()) * (kTileColumns / 8);
  Value zeros = t.pack(Values(4, t.i32(0)));
  for (int64_t stage = 0; stage < l.stages; ++stage) {
    if (stage % (2 * l.tiles()) < 2 * l.tiles() - 2) {
      continue;
    }
    Value from = bytesAt(t, stage * l.tileBytes() + l.lastKeys() * kTileColumns * 2);
    t.when(t.isLess(thread, t.i32(chunks)), [&](const ThreadBuilder &c) {
      c.store(zeros, c.offset(from, element, c.mul(thread, 8)), 16);
    });
  }
  releaseTiles(t);
}

/// A tile of keys or of values, by one thread.
void StreamKernel::copyStage(const ThreadBuilder &t, Value head, Value tile,
                             const PipelineState &state, bool isValues) {
  const StreamMatrix &m = isValues ? l.v : l.k;
  Corner corner = cornerOf(t, m, head, l.headsOfKeys);
  Value row = t.add(corner.row, t.mul(tile, l.tileKeys));
  Value barrier = full(t, state.stage), to = tileAt(t, state.stage);
  auto copy = [&](Value map, int64_t keys) {
    return [&, map, keys](const ThreadBuilder &c) {
      arriveExpecting(c, barrier, c.i32(keys * kTileColumns * 2));
      copyBox(c, map, corner.column, row, to, barrier);
      return Values();
    };
  };
  if (!kLastMap) {
    copy(isValues ? vMap : kMap, l.tileKeys)(t);
    return;
  }
  t.choose(t.isEqual(tile, t.i32(l.tiles() - 1)),
           copy(isValues ? vLastMap : kLastMap, l.lastKeys()),
           copy(isValues ? vMap : kMap, l.tileKeys));
}

/// What is added to scores before they are scaled, by a warp.
void StreamKernel::copyMask(const ThreadBuilder &t, Value head, Value tile,
                            const PipelineState &state) {
  const StridedTensor &mask = *p.mask;
  double infinite = std::numeric_limits<float>::infinity();
  Value batch = t.div(head, l.headsOfBatch), inBatch = t.rem(head, l.headsOfBatch);
  Value pointer = pointerTo(t, frame, 3, mask, {batch, inBatch});
  Value to = maskAt(t, state.stage), first = t.mul(tile, l.tileKeys);
  unsigned bytes = mask.element.getIntOrFloatBitWidth() / 8;
  auto keep = [&](const ThreadBuilder &c, Value inTile, ValueRange found) -> Values {
    Value key = c.add(first, inTile), read = c.min(key, c.i32(l.keys - 1));
    Value place = c.mul(c.toI64(read), frame.size64(mask.strides[3]));
    Value given = c.toF32(c.load(mask.element, c.offset(pointer, mask.element, place), bytes));
    Value added = c.maxF(c.mulF(given, c.f32(1 / p.scale)), c.f32(kLowestMask));
    added =
        c.select(c.isEqual(c.bitcast(c.i32Type(), given), c.bitcast(c.i32Type(), c.f32(-infinite))),
                 c.f32(-infinite), added);
    c.store(added, c.offset(to, c.f32Type(), inTile), 4);
    // -0 adds nothing either, but costs only time.
    return {c.select(c.isEqual(c.bitcast(c.i32Type(), added), c.i32(0)), found[0], c.i32(1))};
  };
  Value found = t.loop(t.lane(), t.i32(l.tileKeys), t.i32(kWarp), t.i32(0), keep)[0];
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    found = t.max(found, t.shuffleXor(found, distance));
  }
  t.store(found, markAt(t, state.stage), 4);
  t.warpBarrier();
}

/// All heads of this block, by one warp.
void StreamKernel::copyHeads(const ThreadBuilder &t) {
  Value isCopying = t.isEqual(thread, t.i32(0));
  auto copyTile = [&](const ThreadBuilder &c, Value head, Value tile, const PipelineState &state) {
    for (bool isValues : {false, true}) {
      PipelineState now = advance(c, state, isValues ? 1 : 0);
      waitForPhase(c, empty(c, now.stage), c.sub(c.i32(1), now.parity));
      c.when(isCopying, [&](const ThreadBuilder &d) { copyStage(d, head, tile, now, isValues); });
      if (p.mask && isValues) {
        copyMask(c, head, tile, now);
        c.when(isCopying, [&](const ThreadBuilder &d) { arrive(d, full(d, now.stage)); });
      }
    }
  };
  PipelineState first = {t.i32(0), t.i32(0)};
  forHeads(t, first.values(), [&](const ThreadBuilder &c, Value head, ValueRange state) {
    return c.loop(c.i32(0), c.i32(l.tiles()), c.i32(1), state,
                  [&](const ThreadBuilder &d, Value tile, ValueRange at) {
                    copyTile(d, head, tile, PipelineState::of(at));
                    return advance(d, PipelineState::of(at), 2).values();
                  });
  });
}

void StreamKernel::emit() {
  frame.setMinBlocksPerSm(1);
  ThreadBuilder t = frame.code();
  place(t);
  frame.waitHere();
  frame.holdDependents();
  t.choose(
      t.isLess(thread, t.i32(kWarpgroup)),
      [&](const ThreadBuilder &c) {
        releaseRegisters(c, tuning::kCopyRegisters);
        c.when(c.isLess(thread, c.i32(kWarp)), [&](const ThreadBuilder &d) { copyHeads(d); });
        return Values();
      },
      [&](const ThreadBuilder &c) {
        takeRegisters(c, tuning::kMultiplyRegisters);
        multiplyHeads(c);
        return Values();
      });
}

} // namespace tenon::codegen::cuda
