// What a warpgroup does with 64 queries: products with a tile of keys, weights, the product with
// their values, tile by tile, and the result. Relies on the ring of AttentionStream.cpp.
#include "compiler/codegen/cuda/AttentionStream.h"

#include "compiler/codegen/cuda/AttentionFlash.h"
#include "compiler/codegen/cuda/TensorCore.h"

#include <numbers>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// Columns of values, and a thread's sums of them.
constexpr int64_t kColumns = kTileColumns, kSums = kGroupRows * kColumns / kWarpgroup;
/// Of rows that have seen no key: below all masks, and finite times the exponent's factor.
constexpr double kLowestScore = -0x1p127;
/// Sums are relative to a maximum that is at most this (a logarithm of base 2) too low: so much
/// larger the weights may be as 16-bit floats, and most tiles leave the sums as they are.
constexpr double kSlack = 8;

} // namespace

Values StreamKernel::State::values() const {
  Values all = sums;
  all.append(maxima);
  all.append(totals);
  return all;
}

StreamKernel::State StreamKernel::State::of(ValueRange values) {
  return {Values(values.take_front(kSums)), Values(values.slice(kSums, 2)),
          Values(values.slice(kSums + 2, 2))};
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
  t.when(t.bitAnd(isFirst, t.isLess(head, t.i32(l.heads))), [&](const ThreadBuilder &c) {
    copyQueries(c, head, c.rem(next, l.units()), c.add(unit.count, 1));
  });
}

/// Gives a slot back after the last use of it.
void StreamKernel::release(const ThreadBuilder &t, const Unit &unit, Value slot,
                           Value condition) const {
  Value isDone = t.bitAnd(isFirst, unit.isLast);
  t.when(condition ? t.bitAnd(isDone, condition) : isDone,
         [&](const ThreadBuilder &c) { arrive(c, empty(c, slot)); });
}

/// A head that this warpgroup does nothing of.
void StreamKernel::passHead(const ThreadBuilder &t, const Turn &first) const {
  t.loop(t.i32(0), t.i32(2 * l.tiles()), t.i32(1), first.values(),
         [&](const ThreadBuilder &c, Value, ValueRange state) {
           Turn turn = Turn::of(state);
           waitForPhase(c, full(c, turn.slot), turn.parity);
           c.when(isFirst, [&](const ThreadBuilder &d) { arrive(d, empty(d, turn.slot)); });
           return advance(c, turn, 1).values();
         });
}

/// Units of 64 queries are dealt to the warpgroups in turn, over the borders of heads.
void StreamKernel::multiplyHeads(const ThreadBuilder &t) {
  group = t.sub(t.div(thread, kWarpgroup), t.i32(1));
  isFirst = t.isEqual(t.rem(thread, kWarpgroup), t.i32(0));
  Value head = t.add(t.block(), t.mul(t.div(group, l.units()), l.blocks));
  t.when(t.bitAnd(isFirst, t.isLess(head, t.i32(l.heads))), [&](const ThreadBuilder &c) {
    copyQueries(c, head, c.rem(group, l.units()), c.i32(0));
  });
  // The head's first tile, this warpgroup's first unit of it, and how many units it has done.
  Values inits = {t.i32(0), t.i32(0), group, t.i32(0)};
  forHeads(t, inits, [&](const ThreadBuilder &c, Value at, ValueRange state) -> Values {
    Turn first = Turn::of(state);
    Value begin = state[2], done = state[3];
    Value units = c.div(c.sub(c.i32(l.units() + kStreamGroups - 1), begin), kStreamGroups);
    if (l.units() < kStreamGroups) {
      c.when(c.isEqual(units, c.i32(0)), [&](const ThreadBuilder &d) { passHead(d, first); });
    }
    c.loop(c.i32(0), units, c.i32(1), {},
           [&](const ThreadBuilder &d, Value i, ValueRange) -> Values {
             Value isLast = d.isEqual(d.add(i, 1), units);
             doUnit(d, {at, d.add(begin, d.mul(i, kStreamGroups)), d.add(done, i), isLast, first});
             return {};
           });
    Turn next = advance(c, first, 2 * l.tiles());
    Value left = c.sub(c.add(begin, c.mul(units, kStreamGroups)), c.i32(l.units()));
    return {next.slot, next.parity, left, c.add(done, units)};
  });
}

void StreamKernel::doUnit(const ThreadBuilder &t, const Unit &unit) {
  askForNext(t, unit);
  Value buffer = t.rem(unit.count, 2);
  waitForPhase(t, queriesFull(t, buffer), t.rem(t.div(unit.count, 2), 2));
  Value queries = queriesAt(t, buffer);
  Values state = unit.first.values();
  state.append(State{Values(kSums, t.f32(0)), Values(2, t.f32(kLowestScore)), Values(2, t.f32(0))}
                   .values());
  state = t.loop(t.i32(0), t.i32(l.tiles()), t.i32(1), state,
                 [&](const ThreadBuilder &c, Value tile, ValueRange before) {
                   return step(c, unit, queries, tile, before);
                 });
  State last = State::of(ArrayRef<Value>(state).drop_front(2));
  last.sums = waitForProducts(t, last.sums, 0);
  release(t, unit, t.rem(t.add(state[0], l.slots - 1), l.slots));
  store(t, unit, last);
}

/// One tile. The product with its values is under way when it ends, and beside that with the next
/// keys; others' exponentials fill the time of both.
Values StreamKernel::step(const ThreadBuilder &t, const Unit &unit, Value queries, Value tile,
                          ValueRange before) const {
  Turn turn = Turn::of(before), values = advance(t, turn, 1);
  waitForPhase(t, full(t, turn.slot), turn.parity);
  Values scores = beginTiles(t, element, queries, tileAt(t, turn.slot), kColumns, l.tileKeys);
  size_t count = scores.size();
  scores.append(before.begin() + 2, before.begin() + 2 + kSums);
  Values done = waitForProducts(t, scores, 0);
  release(t, unit, turn.slot);
  release(t, unit, t.rem(t.add(turn.slot, l.slots - 1), l.slots), t.isLess(t.i32(0), tile));
  scores.assign(done.begin(), done.begin() + count);
  State state = State::of(before.drop_front(2));
  state.sums.assign(done.begin() + count, done.end());
  auto waitForValues = [&] { waitForPhase(t, full(t, values.slot), values.parity); };
  if (p.mask) {
    waitForValues();
  }
  if (hasMask()) {
    scores = masked(t, values.slot, scores);
  }
  raise(t, scores, state);
  Values words = weigh(t, scores, state);
  if (!p.mask) {
    waitForValues();
  }
  state.sums = beginProduct(t, element, words, tileAt(t, values.slot), state.sums);
  Values after = advance(t, values, 1).values();
  after.append(state.values());
  return after;
}

/// Most tiles of most masks add nothing.
Values StreamKernel::masked(const ThreadBuilder &t, Value slot, const Values &scores) const {
  Value mark = t.load(t.i32Type(), markAt(t, slot), 4);
  auto add = [&](const ThreadBuilder &c) {
    Value from = c.offset(maskAt(c, slot), c.f32Type(), c.mul(c.rem(thread, 4), 2));
    Values result;
    for (size_t i = 0; i < scores.size(); i += 4) {
      Value pair = c.load(c.vectorType(2, c.f32Type()), c.offset(from, c.f32Type(), i * 2), 8);
      for (size_t j = 0; j < 4; ++j) {
        result.push_back(c.addF(scores[i + j], c.extract(pair, j % 2)));
      }
    }
    return result;
  };
  return t.choose(t.isEqual(mark, t.i32(0)), [&](const ThreadBuilder &) { return scores; }, add);
}

/// Brings the maxima up to those of these scores, and the sums to the maxima, where they have become
/// much larger.
void StreamKernel::raise(const ThreadBuilder &t, const Values &scores, State &state) const {
  Value factor = t.f32(p.scale * std::numbers::log2e), isSmall;
  Values grown;
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
    grown.push_back(t.maxF(top, state.maxima[part]));
    Value growth = t.mulF(t.subF(grown.back(), state.maxima[part]), factor);
    Value isKept = t.isLessF(growth, t.f32(kSlack));
    isSmall = isSmall ? t.bitAnd(isSmall, isKept) : isKept;
  }
  auto rescale = [&](const ThreadBuilder &c) {
    Values older;
    for (size_t part : {0, 1}) {
      older.push_back(c.exp2(c.mulF(c.subF(state.maxima[part], grown[part]), factor)));
    }
    State to = {{}, grown, {}};
    for (auto [i, sum] : llvm::enumerate(state.sums)) {
      to.sums.push_back(c.mulF(sum, older[i / 2 % 2]));
    }
    for (size_t part : {0, 1}) {
      to.totals.push_back(c.mulF(state.totals[part], older[part]));
    }
    return to.values();
  };
  state = State::of(
      t.choose(isSmall, [&](const ThreadBuilder &) { return state.values(); }, rescale));
}

/// Scores to the words of a left operand of weights.
Values StreamKernel::weigh(const ThreadBuilder &t, const Values &scores, State &state) const {
  Value factor = t.f32(p.scale * std::numbers::log2e);
  Values shifts, words;
  for (Value maximum : state.maxima) {
    shifts.push_back(t.negF(t.mulF(maximum, factor)));
  }
  for (size_t i = 0; i < scores.size(); i += 2) {
    size_t part = i / 2 % 2;
    Value low = t.exp2(t.fma(scores[i], factor, shifts[part]));
    Value high = t.exp2(t.fma(scores[i + 1], factor, shifts[part]));
    state.totals[part] = t.addF(t.addF(state.totals[part], low), high);
    words.push_back(t.packPair(element, low, high));
  }
  return words;
}

/// A thread stores 16 bytes of each 32 columns of its two rows.
void StreamKernel::store(const ThreadBuilder &t, const Unit &unit, State &state) {
  Value inGroup = t.rem(thread, kWarpgroup), quad = t.rem(thread, 4);
  Value row = t.add(t.mul(unit.index, kGroupRows),
                    t.add(t.mul(t.div(inGroup, kWarp), kMmaRows), t.div(t.lane(), 4)));
  Corner corner = cornerOf(t, l.y, unit.head, 1);
  Value at = t.add(t.mul(t.add(corner.row, row), l.y.rowElements), corner.column);
  Value to = t.offset(shell.buffer(p.mask ? 4 : 3), element, t.add(at, t.mul(quad, 8)));
  for (int64_t part : {0, 1}) {
    Value total = state.totals[part];
    total = t.addF(total, t.shuffleXor(total, 1));
    Value inverse = inverseTotal(t, t.addF(total, t.shuffleXor(total, 2)));
    Value place = t.offset(to, element, part * 8 * l.y.rowElements);
    Values chunks;
    for (int64_t column = 0; column < kColumns; column += 32) {
      Values words;
      for (int64_t i = column / 2 + part * 2; i < column / 2 + 16; i += 4) {
        words.push_back(t.packPair(element, t.mulF(state.sums[i], inverse),
                                   t.mulF(state.sums[i + 1], inverse)));
      }
      chunks.push_back(t.pack(exchangeWords(t, words)));
    }
    auto store = [&](const ThreadBuilder &c) {
      for (auto [i, chunk] : llvm::enumerate(chunks)) {
        c.store(chunk, c.offset(place, element, i * 32), 16);
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
