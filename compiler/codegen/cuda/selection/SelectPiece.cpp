// Selects from pieces of rows: a team holds the keys of a piece in registers, finds the key of the
// last one that is wanted bit by bit (how many are at least so large?), and gathers what stands
// before it in the order of indices. Nothing depends on the order in which threads run.
#include "compiler/codegen/cuda/base/ElementRun.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/selection/TopK.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// Behind every index of an element.
constexpr int64_t kNoIndex = INT32_MAX;

/// Keys, and the indices of their elements.
struct List {
  Value keys, indices;
};

class SelectKernel {
public:
  SelectKernel(RegionBuilder &region, const TopKWork &work, const SelectLayout &layout,
               const std::optional<Candidates> &source, const std::optional<Candidates> &sink)
      : region(region), work(work), layout(layout), source(source), sink(sink),
        team(layout.threads), frame(region, buffersOf(), readsOf(), layout.threads * layout.rows) {}

  void emit();

private:
  SmallVector<uint32_t> buffersOf() const;
  /// Of a source that is no list, only x.
  uint32_t readsOf() const { return source && !sink ? 3 : source ? 2 : 1; }
  Type key() const { return work.order.key; }
  int64_t keyBytes() const { return byteSize(work.order.key); }
  int64_t slots() const { return llvm::PowerOf2Ceil(std::max<int64_t>(work.most, 1)); }

  void select(const ThreadBuilder &t, Value row, Value piece);
  void loadElements(const ThreadBuilder &t, Value row, Value piece);
  void loadStrided(const ThreadBuilder &t, Value row, Value piece);
  void loadList(const ThreadBuilder &t, Value row, Value piece);
  Value countAtLeast(const ThreadBuilder &t, Value bound, Value round) const;
  Value findLast(const ThreadBuilder &t) const;
  void gather(const ThreadBuilder &t, Value last, const List &to, Value space) const;
  void order(const ThreadBuilder &t, const List &list, Value first, Value second) const;
  void sort(const ThreadBuilder &t, const List &list) const;
  void finish(const ThreadBuilder &t, Value row, const List &list);
  /// That of what is not there.
  Value noKey(const ThreadBuilder &t) const {
    return arith::ConstantOp::create(t.builder, t.location, t.builder.getZeroAttr(key()));
  }
  Value at(const ThreadBuilder &t, const List &list, Value place, bool isKey) const {
    return t.offset(isKey ? list.keys : list.indices, isKey ? key() : t.i32Type(), place);
  }

  RegionBuilder &region;
  const TopKWork &work;
  const SelectLayout &layout;
  const std::optional<Candidates> &source;
  const std::optional<Candidates> &sink;
  Team team;
  KernelFrame frame;
  Value thread, wanted, length; ///< i32 of the team; i32; i64 of the row
  Value scratch;
  Values keys, indices; ///< of the thread's elements, in the order of indices
};

SmallVector<uint32_t> SelectKernel::buffersOf() const {
  SmallVector<uint32_t> buffers;
  if (source) {
    buffers.append({source->keys, source->indices});
  }
  if (!source || !sink) {
    buffers.push_back(work.input);
  }
  buffers.push_back(sink ? sink->keys : work.values);
  buffers.push_back(sink ? sink->indices : work.indices);
  return buffers;
}

void SelectKernel::loadElements(const ThreadBuilder &t, Value row, Value piece) {
  Value begin = t.mul(row, length);
  ElementRun run(t, frame.buffer(0), work.order.storage, begin, t.add(begin, length));
  Value none =
      arith::ConstantOp::create(t.builder, t.location, t.builder.getZeroAttr(work.order.storage));
  Value first = t.add(t.mul(piece, layout.piece() / run.lanes),
                      t.mul(t.toI64(thread), layout.items / run.lanes));
  for (int64_t i = 0; i < layout.items / run.lanes; ++i) {
    Value vector = t.add(first, i);
    Value number = t.toI32(run.numberOf(t, vector));
    for (auto [lane, value] : llvm::enumerate(run.load(t, vector, none))) {
      Value index = t.add(number, static_cast<int64_t>(lane));
      // As unsigned numbers, those before the row are behind it.
      Value isReal = isAbove(t, t.toI32(length), index);
      keys.push_back(t.select(isReal, work.order.keyOf(t, value), noKey(t)));
      indices.push_back(t.select(isReal, index, t.i32(kNoIndex)));
    }
  }
}

/// Neighbours along the axis do not lie side by side.
void SelectKernel::loadStrided(const ThreadBuilder &t, Value row, Value piece) {
  Value inner = frame.size64(work.inner);
  Value start = rowStart(t, row, length, inner);
  Value first = t.add(t.mul(piece, layout.piece()), t.mul(t.toI64(thread), layout.items));
  Value none = noKey(t);
  for (int64_t i = 0; i < layout.items; ++i) {
    Value index = t.add(first, i), isReal = t.isLess(index, length);
    keys.push_back(t.choose(
        isReal,
        [&](const ThreadBuilder &b) -> Values {
          Type storage = work.order.storage;
          Value place = b.add(start, b.mul(index, inner));
          Value value =
              b.load(storage, b.offset(frame.buffer(0), storage, place), byteSize(storage));
          return {work.order.keyOf(b, value)};
        },
        [&](const ThreadBuilder &) -> Values { return {none}; })[0]);
    indices.push_back(t.select(isReal, t.toI32(index), t.i32(kNoIndex)));
  }
}

void SelectKernel::loadList(const ThreadBuilder &t, Value row, Value piece) {
  Value count = frame.size64(source->pieces * work.wanted), start = t.mul(row, count);
  Value first = t.add(t.mul(piece, layout.piece()), t.mul(t.toI64(thread), layout.items));
  Value none = noKey(t);
  List list{frame.buffer(0), frame.buffer(1)};
  for (int64_t i = 0; i < layout.items; ++i) {
    Value number = t.add(first, i);
    Values loaded = t.choose(
        t.isLess(number, count),
        [&](const ThreadBuilder &b) -> Values {
          Value place = b.add(start, number);
          return {b.load(key(), at(b, list, place, true), keyBytes()),
                  b.load(b.i32Type(), at(b, list, place, false), 4)};
        },
        [&](const ThreadBuilder &b) -> Values { return {none, b.i32(kNoIndex)}; });
    keys.push_back(loaded[0]);
    indices.push_back(loaded[1]);
  }
}

Value SelectKernel::countAtLeast(const ThreadBuilder &t, Value bound, Value round) const {
  Value own = t.i32(0);
  for (Value each : keys) {
    own = t.add(own, t.select(isAtLeast(t, each, bound), t.i32(1), t.i32(0)));
  }
  return team.total(t, own, scratch, round);
}

/// The largest key that `wanted` keys reach.
Value SelectKernel::findLast(const ThreadBuilder &t) const {
  Value none = noKey(t);
  int64_t top = int64_t(1) << (work.order.bits - 1);
  Value bit = t.constantOfType(none, work.order.bits == 32 ? INT32_MIN : top);
  Values inits = {none, bit, t.i32(0)};
  return loopWhile(
      t, inits,
      [&](const ThreadBuilder &b, ValueRange now) {
        return isNot(b, now[1], b.constantOfType(now[1], 0));
      },
      [&](const ThreadBuilder &b, ValueRange now) -> Values {
        Value bound = bitOr(b, now[0], now[1]);
        Value count = countAtLeast(b, bound, now[2]);
        Value isReached = isAtLeast(b, count, wanted), isExact = b.isEqual(count, wanted);
        Value next = b.select(isExact, b.constantOfType(bound, 0),
                              shiftRight(b, now[1], b.constantOfType(now[1], 1)));
        return {b.select(isReached, bound, now[0]), next, b.add(now[2], 1)};
      })[0];
}

/// The keys before `last`, and as many equal ones as there is room for; nothing stands in what is
/// left of the `space`.
void SelectKernel::gather(const ThreadBuilder &t, Value last, const List &to, Value space) const {
  constexpr int64_t half = 16;
  Value one = t.i32(1), none = t.i32(0), tie = t.i32(1 << half);
  Values states; // 1: before the last, 1 << half: equal to it
  Value own = none;
  for (auto [each, index] : llvm::zip(keys, indices)) {
    Value isTie = both(t, t.isEqual(each, last), isNot(t, index, t.i32(kNoIndex)));
    states.push_back(t.select(isAbove(t, each, last), one, t.select(isTie, tie, none)));
    own = t.add(own, states.back());
  }
  auto [before, all] = team.prefix(t, own, scratch, one);
  Value low = t.i32((1 << half) - 1);
  Value allBefore = t.bitAnd(all, low), allTies = shiftRight(t, all, t.i32(half));
  Value room = t.sub(wanted, allBefore);
  for (auto [each, index, state] : llvm::zip(keys, indices, states)) {
    Value first = t.bitAnd(before, low), ties = shiftRight(t, before, t.i32(half));
    Value place = t.add(first, t.min(ties, room));
    Value fits = both(t, t.isEqual(state, tie), t.isLess(ties, room));
    t.when(either(t, t.isEqual(state, one), fits), [&](const ThreadBuilder &b) {
      b.store(each, at(b, to, place, true), keyBytes());
      b.store(index, at(b, to, place, false), 4);
    });
    before = t.add(before, state);
  }
  Value found = t.add(allBefore, t.min(allTies, room));
  t.loop(t.add(found, thread), space, t.i32(layout.threads), {},
         [&](const ThreadBuilder &b, Value i, ValueRange) -> Values {
           b.store(noKey(b), at(b, to, i, true), keyBytes());
           b.store(b.i32(kNoIndex), at(b, to, i, false), 4);
           return {};
         });
}

void SelectKernel::order(const ThreadBuilder &t, const List &list, Value first,
                         Value second) const {
  Value places[] = {first, second}, key2[2], index2[2];
  for (int i = 0; i < 2; ++i) {
    key2[i] = t.load(key(), at(t, list, places[i], true), keyBytes());
    index2[i] = t.load(t.i32Type(), at(t, list, places[i], false), 4);
  }
  Value isLate = either(t, isAbove(t, key2[1], key2[0]),
                        both(t, t.isEqual(key2[1], key2[0]), t.isLess(index2[1], index2[0])));
  t.when(isLate, [&](const ThreadBuilder &b) {
    for (int i = 0; i < 2; ++i) {
      b.store(key2[1 - i], at(b, list, places[i], true), keyBytes());
      b.store(index2[1 - i], at(b, list, places[i], false), 4);
    }
  });
}

/// A bitonic network over the slots; each merge begins with pairs that mirror each other, so that
/// of every pair the first place gets what stands before the other.
void SelectKernel::sort(const ThreadBuilder &t, const List &list) const {
  Value pairs = t.i32(slots() / 2);
  auto forPairs = [&](const ThreadBuilder &b,
                      llvm::function_ref<void(const ThreadBuilder &, Value)> body) {
    b.loop(thread, pairs, b.i32(layout.threads), {},
           [&](const ThreadBuilder &c, Value pair, ValueRange) -> Values {
             body(c, pair);
             return {};
           });
    team.sync(b);
  };
  loopWhile(
      t, Values{t.i32(1)},
      [&](const ThreadBuilder &b, ValueRange half) { return b.isLess(half[0], b.i32(slots())); },
      [&](const ThreadBuilder &b, ValueRange halves) -> Values {
        Value half = halves[0];
        forPairs(b, [&](const ThreadBuilder &c, Value pair) {
          Value within = c.bitAnd(pair, c.add(half, -1));
          Value start = c.mul(c.sub(pair, within), 2);
          order(c, list, c.add(start, within),
                c.sub(c.add(start, c.add(c.mul(half, 2), -1)), within));
        });
        loopWhile(
            b, Values{shiftRight(b, half, b.i32(1))},
            [&](const ThreadBuilder &c, ValueRange now) { return c.isLess(c.i32(0), now[0]); },
            [&](const ThreadBuilder &c, ValueRange now) -> Values {
              Value distance = now[0];
              forPairs(c, [&](const ThreadBuilder &d, Value pair) {
                Value within = d.bitAnd(pair, d.add(distance, -1));
                Value first = d.add(d.mul(d.sub(pair, within), 2), within);
                order(d, list, first, d.add(first, distance));
              });
              return {shiftRight(c, distance, c.i32(1))};
            });
        return {b.mul(half, 2)};
      });
}

void SelectKernel::finish(const ThreadBuilder &t, Value row, const List &list) {
  unsigned input = source ? 2 : 0;
  TopKResults results(t, frame, work, row, input, input + 1);
  t.loop(thread, wanted, t.i32(layout.threads), {},
         [&](const ThreadBuilder &b, Value i, ValueRange) -> Values {
           results.store(b, i, b.load(b.i32Type(), at(b, list, i, false), 4));
           return {};
         });
}

void SelectKernel::select(const ThreadBuilder &t, Value row, Value piece) {
  source                       ? loadList(t, row, piece)
  : readsVectors(work, layout) ? loadElements(t, row, piece)
                               : loadStrided(t, row, piece);
  Value last = findLast(t);
  team.sync(t);
  Type byte = t.builder.getI8Type();
  if (sink) {
    Value number = t.add(t.mul(row, frame.size64(sink->pieces)), piece);
    Value start = t.mul(number, frame.size64(work.wanted));
    List to{t.offset(frame.buffer(readsOf()), key(), start),
            t.offset(frame.buffer(readsOf() + 1), t.i32Type(), start)};
    return gather(t, last, to, wanted);
  }
  Value ofTeam = t.mul(t.div(t.thread(), layout.threads), slots() * (keyBytes() + 4));
  Value sorted = t.offset(t.offset(frame.dynamicShared(), byte, team.scratchBytes()), byte, ofTeam);
  List list{sorted, t.offset(sorted, byte, slots() * keyBytes())};
  gather(t, last, list, t.i32(slots()));
  team.sync(t);
  sort(t, list);
  finish(t, row, list);
}

void SelectKernel::emit() {
  ThreadBuilder t = frame.code();
  thread = team.thread(t);
  wanted = t.toI32(frame.size64(work.wanted));
  length = frame.size64(work.length);
  scratch = team.isWarp() ? Value() : frame.dynamicShared();
  AffineExpr pieces = sink ? sink->pieces : getAffineConstantExpr(1, region.source.getContext());
  AffineExpr all = work.rows() * pieces;
  Value number = t.toI64(t.block()), count = frame.size64(pieces);
  int64_t bytes = sink ? team.scratchBytes() : sortedBytes(work, layout);
  if (layout.rows == 1) {
    select(t, t.div(number, count), t.rem(number, count));
    return frame.finish(all, bytes);
  }
  number = t.add(t.mul(number, layout.rows), t.toI64(t.div(t.thread(), layout.threads)));
  Value allOfThem = frame.size64(all);
  t.when(t.isLess(number, allOfThem),
         [&](const ThreadBuilder &b) { select(b, b.div(number, count), b.rem(number, count)); });
  frame.finish(all.ceilDiv(layout.rows), bytes);
}

} // namespace

int64_t sortedBytes(const TopKWork &work, const SelectLayout &layout) {
  int64_t slots = llvm::PowerOf2Ceil(std::max<int64_t>(work.most, 1));
  return Team(layout.threads).scratchBytes() + layout.rows * slots * (byteSize(work.order.key) + 4);
}

bool readsVectors(const TopKWork &work, const SelectLayout &layout) {
  return tn::constantDim(work.inner) == 1 && layout.items % lanesOf(work.order.storage) == 0;
}

int64_t reachOver(const TopKWork &work, const SelectLayout &layout) {
  std::optional<int64_t> length = tn::constantDim(work.length);
  int64_t lanes = lanesOf(work.order.storage);
  bool isAligned = length && *length % lanes == 0;
  return isAligned || !readsVectors(work, layout) ? 0 : lanes - 1;
}

void emitSelect(RegionBuilder &region, const TopKWork &work, const SelectLayout &layout,
                const std::optional<Candidates> &source, const std::optional<Candidates> &sink) {
  SelectKernel(region, work, layout, source, sink).emit();
}

Value rowStart(const ThreadBuilder &t, Value row, Value length, Value inner) {
  Value outer = t.div(row, inner), column = t.rem(row, inner);
  return t.add(t.mul(t.mul(outer, length), inner), column);
}

TopKResults::TopKResults(const ThreadBuilder &t, KernelFrame &frame, const TopKWork &work,
                         Value row, unsigned input, unsigned values)
    : work(work), inner(frame.size64(work.inner)) {
  Type element = work.order.storage;
  Value from = rowStart(t, row, frame.size64(work.length), inner);
  Value to = rowStart(t, row, frame.size64(work.wanted), inner);
  x = t.offset(frame.buffer(input), element, from);
  this->values = t.offset(frame.buffer(values), element, to);
  indices = t.offset(frame.buffer(values + 1), t.i64Type(), to);
}

void TopKResults::store(const ThreadBuilder &t, Value place, Value index) const {
  Type element = work.order.storage;
  int64_t bytes = byteSize(element);
  Value number = t.toI64(index), to = t.mul(t.toI64(place), inner);
  Value value = t.load(element, t.offset(x, element, t.mul(number, inner)), bytes);
  t.store(value, t.offset(values, element, to), bytes);
  t.store(number, t.offset(indices, t.i64Type(), to), 8);
}

} // namespace tenon::codegen::cuda
