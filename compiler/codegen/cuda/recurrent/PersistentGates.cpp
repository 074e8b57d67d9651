// The gates of a persistent recurrence: what they read, what a cell makes of their sums, what goes
// to the results. Relies on the sums of all parts of the depth being in shared memory.
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/recurrent/FastCell.h"
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

} // namespace

/// The gates' inputs for the thread's elements of a chunk, as they are stored: what converts them
/// waits for them. Zeros behind the last step.
Values PersistentKernel::loadInputs(const ThreadBuilder &t, Value number, Value chunkRow) const {
  Values loaded;
  Value zero =
      arith::ConstantOp::create(t.builder, t.location, t.builder.getFloatAttr(shape.element, 0));
  for (int64_t round = 0; round < shape.elements(); ++round) {
    Element of = elementAt(t, chunkRow, round);
    Value isRead = both(t, t.isLess(number, steps), t.isLess(of.unit, t.i32(shape.hidden)));
    isRead = both(t, isRead, t.isLess(of.row, batch));
    isRead = both(t, isRead, t.isLess(of.inChunk, t.i32(shape.chunk)));
    Values values = t.choose(
        isRead,
        [&](const ThreadBuilder &b) -> Values {
          Value at = b.add(b.mul(timeOf(b, of, number), batch), of.row);
          at = b.add(b.mul(at, shape.gates * shape.hidden), b.toI64(of.unit));
          Values own;
          for (int64_t gate = 0; gate < shape.gates; ++gate) {
            Value from = b.add(at, gate * shape.hidden);
            from = b.offset(input(op.getInput()), shape.element, from);
            own.push_back(b.load(shape.element, from, shape.bytes));
          }
          return own;
        },
        [&](const ThreadBuilder &b) -> Values { return Values(shape.gates, zero); });
    loaded.append(values);
  }
  return loaded;
}

/// Of an element's gates, over all parts in shared memory.
Values PersistentKernel::sumsOf(const ThreadBuilder &t, const Element &of) const {
  Values gates;
  for (int64_t gate = 0; gate < shape.gates; ++gate) {
    Value total;
    for (int64_t p = 0; p < shape.layout.parts; ++p) {
      Value at = t.mul(t.add(of.inChunk, p * shape.chunk), shape.sumStride());
      Value one = sharedF32(t, sums, t.add(t.add(at, of.local), gate * shape.units));
      total = total ? t.addF(total, one) : one;
    }
    gates.push_back(total);
  }
  return gates;
}

/// Of the thread's element of a round, from its registers: a tile has two gates.
Values PersistentKernel::sumsOf(int64_t round, ArrayRef<Values> totals) const {
  int64_t ofRows = shape.chunk / 4, row = round % ofRows / 2;
  Values gates;
  for (int64_t gate = 0; gate < shape.gates; ++gate) {
    int64_t tile = round / ofRows * shape.tilesOfUnits() + gate / 2;
    gates.push_back(totals[tile * (shape.chunk / 8) + row][gate % 2 * 2 + round % 2]);
  }
  return gates;
}

Value PersistentKernel::newState(const ThreadBuilder &t, const Element &of, ValueRange sums,
                                 ValueRange inputs, Value isRun) const {
  auto withInput = [&](int64_t gate) { return t.addF(sums[gate], t.toF32(inputs[gate])); };
  RecurrentCell cell = fastCell(t, op);
  if (op.getCell() == "rnn") {
    return cell.rnn(withInput(0));
  }
  Value unit = t.min(of.unit, t.i32(shape.hidden - 1));
  if (op.getCell() == "gru") {
    Value total = sums[2];
    if (Value bias = input(op.getResetBias())) {
      total = t.addF(total, readF32(t, bias, unit));
    }
    total = t.addF(t.toF32(inputs[2]), cell.gruReset(withInput(1), total));
    return cell.gru(withInput(0), total, sharedF32(t, before, of.kept));
  }
  Values gateSums, peepholes;
  for (int64_t gate = 0; gate < 4; ++gate) {
    gateSums.push_back(withInput(gate));
    if (op.getPeephole() && gate < 3) {
      peepholes.push_back(readF32(t, input(op.getPeephole()), t.add(unit, gate * shape.hidden)));
    }
  }
  Value oldCell = sharedF32(t, cells, of.kept);
  RecurrentCell::LstmState next = cell.lstm(gateSums, peepholes, oldCell);
  setSharedF32(t, isRun ? t.select(isRun, next.c, oldCell) : next.c, cells, of.kept);
  return next.h;
}

/// Whether a step is one of the element's, where that matters: rows behind the batch's end reach no
/// others. Null if it is.
Value PersistentKernel::isRun(const ThreadBuilder &t, Value number, const Element &of) const {
  Value holds;
  if (op.getLengths()) {
    holds = t.isLess(number, lengthOf(t, of));
  }
  if (shape.layout.blocks * shape.units > shape.hidden) {
    Value isUnit = t.isLess(of.unit, t.i32(shape.hidden));
    holds = holds ? both(t, holds, isUnit) : isUnit;
  }
  return holds;
}

/// The state (f32) of an element after a step, which the block keeps where something reads it.
Value PersistentKernel::keepState(const ThreadBuilder &t, Value number, const Element &of,
                                  ValueRange sums, ValueRange inputs) const {
  Value isOwn = isRun(t, number, of);
  Value next = newState(t, of, sums, inputs, isOwn);
  if (isOwn) {
    next = t.select(isOwn, next, sharedF32(t, before, of.kept));
  }
  if (isOwn || op.getCell() == "gru" || output(op.getLastH())) {
    setSharedF32(t, next, before, of.kept);
  }
  return next;
}

/// Sends the new states of the thread's elements of a chunk. A word of halves is of two neighbours.
PersistentKernel::Words PersistentKernel::computeGates(const ThreadBuilder &t, Value number,
                                                       Value chunkRow, ValueRange inputs,
                                                       ArrayRef<Values> totals) const {
  if (shape.isDirect) {
    return computeDirect(t, number, chunkRow, inputs, totals);
  }
  Words words;
  for (int64_t round = 0; round < shape.elements(); ++round) {
    Element of = elementAt(t, chunkRow, round);
    auto compute = [&](const ThreadBuilder &b) -> Values {
      ValueRange own = inputs.slice(round * shape.gates, shape.gates);
      Word sent = pairOf(b, of, keepState(b, number, of, sumsOf(b, of), own));
      sendWord(b, number, sent);
      markMissing(b, number, sent);
      return {sent.bits};
    };
    Value isOwn = isThere(t, of);
    Values bits = isOwn ? t.choose(isOwn, compute,
                                   [&](const ThreadBuilder &b) -> Values { return {b.i32(0)}; })
                        : compute(t);
    Value isFirst = shape.isHalf ? t.isEqual(t.rem(of.local, 2), t.i32(0)) : Value();
    isOwn = isOwn && isFirst ? both(t, isOwn, isFirst) : isOwn ? isOwn : isFirst;
    words.push_back({bits[0], of, isOwn});
  }
  return words;
}

/// Of two rows and two units, threads of the first unit take the word of the first row, those of
/// the second that of the second.
PersistentKernel::Words PersistentKernel::computeDirect(const ThreadBuilder &t, Value number,
                                                        Value chunkRow, ValueRange inputs,
                                                        ArrayRef<Values> totals) const {
  constexpr int64_t kNextUnit = 4; // lanes
  Words words;
  Value isOdd = t.isEqual(t.rem(t.div(lane, kNextUnit), 2), t.i32(1));
  for (int64_t round = 0; round < shape.elements(); round += 2) {
    Element first = elementAt(t, chunkRow, round), second = elementAt(t, chunkRow, round + 1);
    Element of = elementOf(t, chunkRow, t.select(isOdd, second.inChunk, first.inChunk),
                           t.sub(first.local, t.rem(first.local, 2)));
    Value isOwn = isThere(t, first);
    auto compute = [&](const ThreadBuilder &b) -> Values {
      Values states;
      for (int64_t i = 0; i < 2; ++i) {
        ValueRange own = inputs.slice((round + i) * shape.gates, shape.gates);
        states.push_back(keepState(b, number, i ? second : first, sumsOf(round + i, totals), own));
      }
      Value other = b.shuffleXor(b.select(isOdd, states[0], states[1]), kNextUnit);
      Value bits = b.packPair(shape.element, b.select(isOdd, other, states[0]),
                              b.select(isOdd, states[1], other));
      sendWord(b, number, {bits, of, Value()});
      return {bits};
    };
    Values bits = isOwn ? t.choose(isOwn, compute,
                                   [&](const ThreadBuilder &b) -> Values { return {b.i32(0)}; })
                        : compute(t);
    words.push_back({bits[0], of, isOwn});
  }
  return words;
}

/// A step's states among the results, behind what other blocks wait for. Words in whose middle a
/// row begins are written as two halves.
void PersistentKernel::writeStates(const ThreadBuilder &t, Value number,
                                   ArrayRef<Word> words) const {
  Value all = output(op.getStates());
  if (!all) {
    return;
  }
  bool isWhole = !shape.isHalf || shape.hidden % 2 == 0;
  for (const Word &word : words) {
    Value isWritten = t.isLess(word.of.row, batch);
    for (Value condition : {word.isOwn, isRun(t, number, word.of)}) {
      isWritten = condition ? both(t, isWritten, condition) : isWritten;
    }
    t.when(isWritten, [&](const ThreadBuilder &b) {
      Value at = stateIndex(b, timeOf(b, word.of, number), word.of);
      if (isWhole) {
        return b.store(word.bits, b.offset(all, shape.element, at), 4);
      }
      auto storeHalf = [&](const ThreadBuilder &c, int64_t half) {
        Value bits = shiftRight(c, word.bits, c.i32(16 * half));
        bits = arith::TruncIOp::create(c.builder, c.location, c.builder.getI16Type(), bits);
        c.store(bits, c.offset(all, shape.element, c.add(at, half)), 2);
      };
      storeHalf(b, 0);
      b.when(b.isLess(b.add(word.of.unit, 1), b.i32(shape.hidden)),
             [&](const ThreadBuilder &c) { storeHalf(c, 1); });
    });
  }
}

} // namespace tenon::codegen::cuda
