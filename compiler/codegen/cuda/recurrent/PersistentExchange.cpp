// How blocks exchange states: through the shared memory of a cluster, where barriers count the
// bytes that arrive, or through the L2, where a word that no state has stands until a state is
// written over it. A state overwrites one that all blocks have read: each has sent the next one
// behind that.
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/base/AsyncCopy.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"
#include "engine/KernelAbi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// 16 bytes that other blocks wrote; the first-level cache does not see that.
Values loadFresh(const ThreadBuilder &t, Value pointer) {
  Type type =
      LLVM::LLVMStructType::getLiteral(t.builder.getContext(), SmallVector<Type>(4, t.i32Type()));
  Value all = t.assembly(type, "ld.relaxed.gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];",
                         "=r,=r,=r,=r,l,~{memory}", {pointer});
  return {t.member(all, 0), t.member(all, 1), t.member(all, 2), t.member(all, 3)};
}

/// A word that other blocks wait for.
void storeRelaxed(const ThreadBuilder &t, Value pointer, Value word) {
  t.assembly(Type(), "st.relaxed.gpu.global.b32 [$0], $1;", "l,r,~{memory}", {pointer, word});
}

/// A float that is not a number; a mark has all bits.
constexpr int64_t kNoNumber = 0x7fffffff;

} // namespace

uint32_t emitFirstStates(RegionBuilder &region, tn::RecurrenceOp op, const PersistentShape &shape) {
  constexpr unsigned threads = 256;
  AffineExpr tiles = tilesOfBatch(op, shape);
  int64_t elements = shape.layout.rows * shape.depth;
  int64_t slots = shape.layout.slots();
  uint32_t states = region.addTemporary(tiles * (slots * elements * shape.bytes));
  unsigned first = cast<BlockArgument>(op.getFirstH()).getArgNumber();
  KernelFrame frame(region, {region.input(first), states}, 1, threads);
  ThreadBuilder t = frame.code();
  Value batch = frame.size64(tn::getDims(op.getInput().getType())[1]);
  Value count = frame.size64(tiles);
  Value at = t.add(t.mul(t.toI64(t.block()), threads), t.toI64(t.thread()));
  t.when(t.isLess(at, t.mul(count, elements)), [&](const ThreadBuilder &b) {
    Value row = b.div(at, shape.depth), k = b.rem(at, shape.depth);
    Value isInside = both(b, b.isLess(row, batch), b.isLess(k, b.i64(shape.hidden)));
    Value zero =
        arith::ConstantOp::create(b.builder, b.location, b.builder.getFloatAttr(shape.element, 0));
    Values value = b.choose(
        isInside,
        [&](const ThreadBuilder &c) -> Values {
          Value from = c.offset(frame.buffer(0), shape.element, c.add(c.mul(row, shape.hidden), k));
          return {c.load(shape.element, from, shape.bytes)};
        },
        [&](const ThreadBuilder &) -> Values { return {zero}; });
    Value to = b.add(b.mul(b.div(at, elements), slots * elements), b.rem(at, elements));
    auto store = [&](Value element, Value place) {
      b.store(element, b.offset(frame.buffer(1), shape.element, place), shape.bytes);
    };
    Type bits = b.builder.getIntegerType(unsigned(8 * shape.bytes));
    auto constant = [&](int64_t of) -> Value {
      return arith::ConstantOp::create(b.builder, b.location, b.builder.getIntegerAttr(bits, of));
    };
    Value own = b.bitcast(bits, value[0]);
    // No state is a mark: what is not a number becomes another such.
    store(
        b.select(b.isEqual(own, constant(-1)), constant(kNoNumber >> (32 - 8 * shape.bytes)), own),
        to);
    Value isComputed = b.isLess(k, b.i64(shape.layout.blocks * shape.units));
    Value mark = b.select(isComputed, constant(-1), constant(0));
    for (int64_t slot = 1; slot < slots; ++slot) {
      store(mark, b.add(to, slot * elements));
    }
  });
  frame.finish((tiles * elements).ceilDiv(threads));
  return states;
}

void PersistentKernel::reportWait(const ThreadBuilder &t) const {
  Type byte = t.builder.getI8Type();
  Value one = LLVM::ConstantOp::create(t.builder, t.location, byte, 1);
  t.store(one, t.offset(status, byte, TENON_KERNEL_WAITED), 1);
}

/// Where the state before a step lies.
Value PersistentKernel::stateOf(const ThreadBuilder &t, Value number) const {
  int64_t slots = shape.layout.slots();
  Value own = t.rem(number, slots);
  if (!shape.layout.grid) {
    int64_t elements = shape.layout.rows * shape.stateStride();
    return t.offset(sharedStates, shape.element, t.mul(own, elements));
  }
  Value slot = t.add(t.mul(tile, slots), own);
  return t.offset(globalStates, shape.element, t.mul(slot, shape.layout.rows * shape.depth));
}

/// An element's word: of halves that of two neighbours, which both threads have.
PersistentKernel::Word PersistentKernel::pairOf(const ThreadBuilder &t, const Element &of,
                                                Value f32) const {
  if (!shape.isHalf) {
    return {t.bitcast(t.i32Type(), f32), of, Value()};
  }
  Value isOdd = t.isEqual(t.rem(of.local, 2), t.i32(1)), other = t.shuffleXor(f32, 1);
  Value bits = t.packPair(shape.element, t.select(isOdd, other, f32), t.select(isOdd, f32, other));
  Element pair = of;
  pair.unit = t.sub(of.unit, t.rem(of.local, 2));
  return {bits, pair, isNot(t, t.rem(of.local, 2), t.i32(1))};
}

/// To where the blocks of the group read the state after a step.
void PersistentKernel::sendWord(const ThreadBuilder &t, Value number, const Word &word) const {
  const PersistentLayout &layout = shape.layout;
  Value next = stateOf(t, t.add(number, 1));
  int64_t stride = layout.grid ? shape.depth : shape.stateStride();
  Value at = t.add(t.mul(word.of.inTile, stride), word.of.unit);
  if (!layout.grid && layout.blocks > 1) {
    Value place = t.offset(next, shape.element, at);
    // Two threads that have a word send it to half of the blocks.
    int64_t own = word.isOwn ? layout.blocks / 2 : layout.blocks;
    Value first = word.isOwn ? t.select(word.isOwn, t.i32(0), t.i32(own)) : t.i32(0);
    Value arrival = arrivalsOf(t, t.add(number, 1));
    for (int64_t block = 0; block < own; ++block) {
      Value target = t.add(first, block);
      storeAsync(t, t.remote(place, target), word.bits, t.remote(arrival, target));
    }
    return;
  }
  auto store = [&](const ThreadBuilder &b) {
    Value place = b.offset(next, shape.element, at);
    if (!layout.grid) {
      return b.store(word.bits, place, 4);
    }
    // Halves are converted: none is a mark.
    Value isMark = b.isEqual(word.bits, b.i32(-1));
    storeRelaxed(b, place,
                 shape.isHalf ? word.bits : b.select(isMark, b.i32(kNoNumber), word.bits));
  };
  word.isOwn ? t.when(word.isOwn, store) : store(t);
}

/// Marks where the state after the next two is written, at which no block looks any more: the one
/// that was there is read before this one is sent.
void PersistentKernel::markMissing(const ThreadBuilder &t, Value number, const Word &word) const {
  if (!shape.layout.grid) {
    return;
  }
  Value at = t.add(t.mul(word.of.inTile, shape.depth), word.of.unit);
  Value place = t.offset(stateOf(t, t.add(number, 3)), shape.element, at);
  auto store = [&](const ThreadBuilder &b) { storeRelaxed(b, place, b.i32(-1)); };
  word.isOwn ? t.when(word.isOwn, store) : store(t);
}

/// Once in each step of each thread: who has seen a state of this block also sees the marks that
/// the block made in the step before it.
void PersistentKernel::orderMarks(const ThreadBuilder &t) const {
  if (shape.layout.grid) {
    t.assembly(Type(), "fence.acq_rel.gpu;", "~{memory}", {});
  }
}

/// What counts the bytes of a state that arrive in the block.
Value PersistentKernel::arrivalsOf(const ThreadBuilder &t, Value number) const {
  return t.offset(arrivals, t.builder.getI64Type(), t.rem(number, 2));
}

/// Of one thread: what is to arrive of a state.
void PersistentKernel::expectState(const ThreadBuilder &t, Value number) const {
  Value bytes = t.mul(usedRows(t), shape.layout.blocks * shape.units * shape.bytes);
  arriveExpecting(t, arrivalsOf(t, number), bytes);
}

/// Until the block has a state from all blocks of the cluster. None sends the next but one before
/// all threads that send are here.
void PersistentKernel::awaitState(const ThreadBuilder &t, Value number) const {
  waitForPhase(t, arrivalsOf(t, number), t.toI32(t.rem(t.div(t.add(number, -1), 2), 2)));
  t.when(t.isEqual(thread, t.i32(0)),
         [&](const ThreadBuilder &b) { expectState(b, b.add(number, 2)); });
}

Value PersistentKernel::loadStates(const ThreadBuilder &t, Value state, ArrayRef<Value> elements,
                                   Value looks, SmallVectorImpl<Values> &vectors) const {
  // The words of all vectors, and the highest, which is a mark if there is one.
  auto look = [&](const ThreadBuilder &b) {
    Values words;
    Value highest = b.i32(0);
    for (Value element : elements) {
      words.append(loadFresh(b, b.offset(state, shape.element, element)));
    }
    for (Value word : words) {
      highest = arith::MaxUIOp::create(b.builder, b.location, highest, word);
    }
    words.push_back(highest);
    return words;
  };
  Values first = look(t);
  first.push_back(looks);
  size_t words = first.size() - 2;
  Values found = loopWhile(
      t, first,
      [&](const ThreadBuilder &b, ValueRange now) {
        return both(b, b.isEqual(now[words], b.i32(-1)), b.isLess(b.i32(0), now[words + 1]));
      },
      [&](const ThreadBuilder &b, ValueRange now) {
        Values next = look(b);
        next.push_back(b.add(now[words + 1], -1));
        return next;
      });
  t.when(t.isEqual(found[words], t.i32(-1)), [&](const ThreadBuilder &b) { reportWait(b); });
  for (size_t word = 0; word < words; word += 4) {
    vectors.push_back(Values(ArrayRef(found).slice(word, 4)));
  }
  return found.back();
}

} // namespace tenon::codegen::cuda
