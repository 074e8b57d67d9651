// What a warpgroup does with 64 queries: products with a tile of keys, probabilities, the product
// with their values, tile by tile, and the result. Relies on the ring of AttentionStream.cpp.
#include "compiler/codegen/cuda/attention/AttentionStream.h"

#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/base/TensorCore.h"

#include <limits>
#include <numbers>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// Columns of values, and a thread's accumulators of them.
constexpr int64_t kColumns = kTileColumns, kAccumulators = kGroupRows * kColumns / kWarpgroup;
/// Of rows that have seen no key: below all masks, and finite times the exponent's factor.
constexpr double kLowestScore = -0x1p127;

} // namespace

Values StreamKernel::State::values() const {
  Values all = keys.values();
  for (const Values *part : {&accumulators, &maxima, &totals, &words}) {
    all.append(*part);
  }
  return all;
}

StreamKernel::State StreamKernel::State::of(ValueRange values) {
  auto take = [&](size_t count) {
    Values part(values.take_front(count));
    values = values.drop_front(count);
    return part;
  };
  PipelineState keys = PipelineState::of(take(2));
  Values accumulators = take(kAccumulators), maxima = take(2), totals = take(2);
  return {keys, accumulators, maxima, totals, Values(values)};
}

/// The queries of a unit, which is number `count` of this warpgroup; by one thread.
void StreamKernel::copyQueries(const ThreadBuilder &t, Value head, Value unit, Value count) const {
  Corner corner = cornerOf(t, l.q, head, 1);
  Value row = t.add(corner.row, t.mul(unit, kGroupRows));
  Value buffer = t.rem(count, 2), barrier = queriesFull(t, buffer);
  arriveExpecting(t, barrier, t.i32(kGroupRows * kTileColumns * 2));
  copyBox(t, qMap, corner.column, row, queriesAt(t, buffer), barrier);
}

/// Copies the queries that this warpgroup has after these, to where those before these were.
void StreamKernel::askForNext(const ThreadBuilder &t, const Unit &unit) const {
  Value next = t.add(unit.index, kStreamGroups);
  Value head = t.add(unit.head, t.mul(t.div(next, l.units()), l.blocks));
  t.when(t.bitAnd(isFirst, t.isLess(head, heads)), [&](const ThreadBuilder &c) {
    copyQueries(c, head, c.rem(next, l.units()), c.add(unit.count, 1));
  });
}

/// Releases a stage after the last use of it, for all warps: they did that together.
void StreamKernel::release(const ThreadBuilder &t, const Unit &unit, Value stage) const {
  t.when(t.bitAnd(isFirst, unit.isLast),
         [&](const ThreadBuilder &c) { arrive(c, empty(c, stage), kWarpsOfGroup); });
}

/// A head that this warpgroup does nothing of. Each warp releases stages by itself, so that none
/// is once around the ring behind the others.
void StreamKernel::passHead(const ThreadBuilder &t, const PipelineState &first) const {
  t.loop(t.i32(0), t.i32(2 * l.tiles()), t.i32(1), first.values(),
         [&](const ThreadBuilder &c, Value, ValueRange carried) {
           PipelineState state = PipelineState::of(carried);
           waitForPhase(c, full(c, state.stage), state.parity);
           c.warpBarrier();
           c.when(c.isEqual(c.rem(thread, kWarp), c.i32(0)),
                  [&](const ThreadBuilder &d) { arrive(d, empty(d, state.stage)); });
           return advance(c, state, 1).values();
         });
}

/// Units of 64 queries are dealt to the warpgroups in turn, over the borders of heads.
void StreamKernel::multiplyHeads(const ThreadBuilder &t) {
  group = t.sub(t.div(thread, kWarpgroup), t.i32(1));
  isFirst = t.isEqual(t.rem(thread, kWarpgroup), t.i32(0));
  Value head = t.add(t.block(), t.mul(t.div(group, l.units()), l.blocks));
  t.when(t.bitAnd(isFirst, t.isLess(head, heads)),
         [&](const ThreadBuilder &c) { copyQueries(c, head, c.rem(group, l.units()), c.i32(0)); });
  // The head's first tile, this warpgroup's first unit of it, and how many units it has done.
  Values inits = {t.i32(0), t.i32(0), group, t.i32(0)};
  Values last =
      forHeads(t, inits, [&](const ThreadBuilder &c, Value at, ValueRange state) -> Values {
        PipelineState first = PipelineState::of(state);
        Value begin = state[2], done = state[3];
        Value units = c.div(c.sub(c.i32(l.units() + kStreamGroups - 1), begin), kStreamGroups);
        if (l.units() < kStreamGroups) {
          c.when(c.isEqual(units, c.i32(0)), [&](const ThreadBuilder &d) { passHead(d, first); });
        }
        c.loop(c.i32(0), units, c.i32(1), {},
               [&](const ThreadBuilder &d, Value i, ValueRange) -> Values {
                 Value isLast = d.isEqual(d.add(i, 1), units);
                 Value count = d.add(done, i);
                 doUnit(d, {at, d.add(begin, d.mul(i, kStreamGroups)), count, isLast,
                            queriesAt(d, d.rem(count, 2)), first});
                 return {};
               });
        PipelineState next = advance(c, first, 2 * l.tiles());
        Value left = c.sub(c.add(begin, c.mul(units, kStreamGroups)), c.i32(l.units()));
        return {next.stage, next.parity, left, c.add(done, units)};
      });
  if (l.isPingPong) {
    orderEnd(t, last[3]);
  }
}

/// Ping-pong: waits until this warpgroup may begin the products number `number` of a unit. Were
/// those of several under way at once, all would end at the same time and none have probabilities
/// to compute meanwhile.
void StreamKernel::orderWait(const ThreadBuilder &t, const Unit &unit, Value number) const {
  if (l.isPingPong) {
    Value phase = t.add(t.mul(unit.count, l.tiles() + 1), number);
    waitForPhase(t, orderBarrier(t, group), t.rem(phase, 2));
  }
}

void StreamKernel::orderArrive(const ThreadBuilder &t) const {
  if (l.isPingPong) {
    t.when(isFirst, [&](const ThreadBuilder &c) {
      arrive(c, orderBarrier(c, c.rem(c.add(group, 1), kStreamGroups)));
    });
  }
}

/// Others may have one unit more than this warpgroup has done, and wait for it to let them. By one
/// thread: the others might miss a phase and wait for it for good.
void StreamKernel::orderEnd(const ThreadBuilder &t, Value done) const {
  Value own = t.div(t.sub(t.add(heads, l.blocks - 1), t.block()), l.blocks);
  Value most = t.ceilDiv(t.mul(own, l.units()), kStreamGroups);
  t.when(isFirst, [&](const ThreadBuilder &c) {
    c.loop(c.mul(done, l.tiles() + 1), c.mul(most, l.tiles() + 1), c.i32(1), {},
           [&](const ThreadBuilder &d, Value phase, ValueRange) -> Values {
             waitForPhase(d, orderBarrier(d, group), d.rem(phase, 2));
             orderArrive(d);
             return {};
           });
  });
}

void StreamKernel::doUnit(const ThreadBuilder &t, const Unit &unit) {
  askForNext(t, unit);
  waitForPhase(t, queriesFull(t, t.rem(unit.count, 2)), t.rem(t.div(unit.count, 2), 2));
  State state = firstTile(t, unit);
  int64_t alike = l.tiles() - l.endsAlone();
  if (alike > 1) {
    state = State::of(
        t.loop(t.i32(1), t.i32(alike), t.i32(1), state.values(),
               [&](const ThreadBuilder &c, Value tile, ValueRange before) {
                 return nextTile(c, unit, tile, /*isLast=*/false, State::of(before)).values();
               }));
  }
  if (l.endsAlone() && l.tiles() > 1) {
    state = nextTile(t, unit, t.i32(l.tiles() - 1), /*isLast=*/true, state);
  }
  lastValues(t, unit, state);
  store(t, unit, state);
}

/// Products of queries and keys.
Values StreamKernel::beginScores(const ThreadBuilder &t, const Unit &unit, Value stage,
                                 int64_t columns) const {
  Values nothing(columns * kGroupRows / kWarpgroup, t.undefined(t.f32Type()));
  return beginTiles(t, element, unit.queries, tileAt(t, stage), kColumns, t.i32(0), nothing);
}

/// What `addMask` begins with: whether there is a mask that adds something.
Value StreamKernel::markOf(const ThreadBuilder &t, const PipelineState &values) const {
  if (!p.mask) {
    return {};
  }
  waitForPhase(t, full(t, values.stage), values.parity);
  return t.load(t.i32Type(), markAt(t, values.stage), 4);
}

StreamKernel::State StreamKernel::firstTile(const ThreadBuilder &t, const Unit &unit) const {
  PipelineState keys = unit.first, values = advance(t, keys, 1);
  int64_t columns = l.tiles() == 1 ? l.lastColumns() : l.tileKeys;
  waitForPhase(t, full(t, keys.stage), keys.parity);
  Value mark = markOf(t, values);
  orderWait(t, unit, t.i32(0));
  Values scores = beginScores(t, unit, keys.stage, columns);
  orderArrive(t);
  scores = waitForProducts(t, scores, 0);
  release(t, unit, keys.stage);
  addMask(t, values.stage, mark, scores);
  if (l.tiles() == 1 && l.hasTail()) {
    hide(t, scores);
  }
  State state = {keys, Values(kAccumulators, t.undefined(t.f32Type())), {}, {}, {}};
  exponentiate(t, scores, state);
  state.words = packed(t, scores);
  return state;
}

/// One more tile: its products with the queries, and beside these the product of the
/// probabilities before with their values, which ends while these are computed.
StreamKernel::State StreamKernel::nextTile(const ThreadBuilder &t, const Unit &unit, Value tile,
                                           bool isLast, const State &before) const {
  int64_t columns = isLast ? l.lastColumns() : l.tileKeys;
  State state = before;
  PipelineState oldValues = advance(t, before.keys, 1);
  state.keys = advance(t, before.keys, 2);
  PipelineState values = advance(t, state.keys, 1);
  waitForPhase(t, full(t, oldValues.stage), oldValues.parity);
  waitForPhase(t, full(t, state.keys.stage), state.keys.parity);
  Value mark = markOf(t, values);
  orderWait(t, unit, tile);
  Values scores = beginScores(t, unit, state.keys.stage, columns);
  state.accumulators = beginProduct(t, element, before.words, tileAt(t, oldValues.stage),
                                    t.sub(tile, t.i32(1)), before.accumulators);
  orderArrive(t);
  scores = waitForProducts(t, scores, 1);
  release(t, unit, state.keys.stage);
  addMask(t, values.stage, mark, scores);
  if (isLast && l.hasTail()) {
    hide(t, scores);
  }
  Values older = exponentiate(t, scores, state);
  state.accumulators = waitForProducts(t, state.accumulators, 0);
  release(t, unit, oldValues.stage);
  for (auto [i, sum] : llvm::enumerate(state.accumulators)) {
    sum = t.mulF(sum, older[i / 2 % 2]);
  }
  state.words = packed(t, scores);
  return state;
}

void StreamKernel::lastValues(const ThreadBuilder &t, const Unit &unit, State &state) const {
  PipelineState values = advance(t, state.keys, 1);
  waitForPhase(t, full(t, values.stage), values.parity);
  orderWait(t, unit, t.i32(l.tiles()));
  Values accumulators = beginProduct(t, element, state.words, tileAt(t, values.stage),
                                     t.i32(l.tiles() - 1), state.accumulators);
  orderArrive(t);
  state.accumulators = waitForProducts(t, accumulators, 0);
  release(t, unit, values.stage);
}

/// Most tiles of most masks add nothing.
void StreamKernel::addMask(const ThreadBuilder &t, Value stage, Value mark, Values &scores) const {
  if (!mark) {
    return;
  }
  auto add = [&](const ThreadBuilder &c) {
    Value from = c.offset(maskAt(c, stage), c.f32Type(), c.mul(c.rem(thread, 4), 2));
    Values result;
    for (size_t i = 0; i < scores.size(); i += 4) {
      Value pair = c.load(c.vectorType(2, c.f32Type()), c.offset(from, c.f32Type(), i * 2), 8);
      for (size_t j = 0; j < 4; ++j) {
        result.push_back(c.addF(scores[i + j], c.extract(pair, j % 2)));
      }
    }
    return result;
  };
  scores = t.choose(t.isEqual(mark, t.i32(0)), [&](const ThreadBuilder &) { return scores; }, add);
}

/// The scores behind the last key.
void StreamKernel::hide(const ThreadBuilder &t, Values &scores) const {
  Value lowest = t.f32(-std::numeric_limits<float>::infinity());
  Value column = t.mul(t.rem(thread, 4), 2);
  for (int64_t i = l.lastKeys() / 8 * 4; i < static_cast<int64_t>(scores.size()); ++i) {
    Value isSeen = t.isLess(t.add(column, i / 4 * 8 + i % 2), t.i32(l.lastKeys()));
    scores[i] = t.select(isSeen, scores[i], lowest);
  }
}

/// Scores to probabilities relative to new maxima. Returns what older accumulators of both rows are
/// multiplied with; the totals are.
Values StreamKernel::exponentiate(const ThreadBuilder &t, Values &scores, State &state) const {
  Value factor = t.f32(p.scale * std::numbers::log2e);
  bool isFirst = state.maxima.empty();
  Values older, totals, maxima, shifts;
  for (size_t part : {0, 1}) {
    // Two chains, so that one need not wait for itself.
    std::array<Value, 2> tops;
    for (size_t i = part * 2; i < scores.size(); i += 4) {
      Value &top = tops[i / 4 % 2];
      Value pair = t.maxF(scores[i], scores[i + 1]);
      top = top ? t.maxF(top, pair) : pair;
    }
    Value top = t.maxF(tops[0], tops[1]);
    top = t.maxF(top, t.shuffleXor(top, 1));
    top = t.maxF(top, t.shuffleXor(top, 2));
    top = t.maxF(top, isFirst ? t.f32(kLowestScore) : state.maxima[part]);
    maxima.push_back(top);
    shifts.push_back(t.negF(t.mulF(top, factor)));
    if (!isFirst) {
      // As the probabilities were: what was rounded must cancel.
      Value before = t.mulF(state.maxima[part], factor);
      older.push_back(t.exp2(t.addF(shifts[part], before)));
      totals.push_back(t.mulF(state.totals[part], older[part]));
    }
  }
  for (auto [i, score] : llvm::enumerate(scores)) {
    size_t part = i / 2 % 2;
    score = t.exp2(t.fma(score, factor, shifts[part]));
    if (totals.size() <= part) {
      totals.push_back(score);
    } else {
      totals[part] = t.addF(totals[part], score);
    }
  }
  state.maxima = maxima;
  state.totals = totals;
  return older;
}

/// The words of a left operand of probabilities.
Values StreamKernel::packed(const ThreadBuilder &t, const Values &probabilities) const {
  Values words;
  for (size_t i = 0; i < probabilities.size(); i += 2) {
    words.push_back(t.packPair(element, probabilities[i], probabilities[i + 1]));
  }
  return words;
}

/// Codes of 8-bit floats for pairs of halves.
Value StreamKernel::codesOf(const ThreadBuilder &t, ArrayRef<Value> pairs) const {
  Values codes;
  for (Value pair : pairs) {
    Value halves = t.bitcast(t.vectorType(2, element), pair);
    codes.push_back(t.intrinsic("llvm.nvvm.f16x2.to.e4m3x2.rn", t.builder.getI16Type(), halves));
  }
  return t.pack(codes);
}

/// A thread stores 8 neighbours of each 32 columns of its two rows.
void StreamKernel::store(const ThreadBuilder &t, const Unit &unit, State &state) {
  Value inGroup = t.rem(thread, kWarpgroup), quad = t.rem(thread, 4);
  Value row = t.add(t.mul(unit.index, kGroupRows),
                    t.add(t.mul(t.div(inGroup, kWarp), kMmaRows), t.div(t.lane(), 4)));
  Corner corner = cornerOf(t, l.y, unit.head, 1);
  Value line = t.add(corner.row, row), column = corner.column;
  if (!l.isSmallResult) {
    line = t.toI64(line);
    column = t.toI64(column);
  }
  Value at = t.add(t.mul(line, l.y.rowElements), column);
  bool isEncoded = p.codesFactor != 0;
  Type stored = isEncoded ? t.builder.getI8Type() : element;
  Value to = t.offset(frame.buffer(p.reads()), stored,
                      t.add(at, l.isSmallResult ? t.mul(quad, 8) : t.toI64(t.mul(quad, 8))));
  for (int64_t part : {0, 1}) {
    Value total = state.totals[part];
    total = t.addF(total, t.shuffleXor(total, 1));
    Value inverse = inverseTotal(t, frame, p, t.addF(total, t.shuffleXor(total, 2)));
    if (isEncoded && p.codesFactor != 1) {
      inverse = t.mulF(inverse, t.f32(p.codesFactor));
    }
    Value place = t.offset(to, stored, part * 8 * l.y.rowElements);
    Values chunks;
    for (int64_t column = 0; column < kColumns; column += 32) {
      Values words;
      for (int64_t i = column / 2 + part * 2; i < column / 2 + 16; i += 4) {
        words.push_back(t.packPair(element, t.mulF(state.accumulators[i], inverse),
                                   t.mulF(state.accumulators[i + 1], inverse)));
      }
      words = exchangeWords(t, words);
      chunks.push_back(isEncoded ? codesOf(t, words) : t.pack(words));
    }
    auto store = [&](const ThreadBuilder &c) {
      for (auto [i, chunk] : llvm::enumerate(chunks)) {
        c.store(chunk, c.offset(place, stored, i * 32), 8 * byteSize(stored));
      }
    };
    if (l.queries % kGroupRows == 0) {
      store(t);
    } else {
      t.when(t.isLess(t.add(row, part * 8), t.i32(l.queries)), store);
    }
  }
}

} // namespace tenon::codegen::cuda
