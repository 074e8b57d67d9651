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

/// The gates' inputs for the thread's elements of a chunk; zeros behind the last step.
Values PersistentKernel::loadInputs(const ThreadBuilder &t, Value number, Value chunkRow) const {
  Values loaded;
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
            own.push_back(readF32(b, input(op.getInput()), b.add(at, gate * shape.hidden)));
          }
          return own;
        },
        [&](const ThreadBuilder &b) -> Values { return Values(shape.gates, b.f32(0)); });
    loaded.append(values);
  }
  return loaded;
}

Value PersistentKernel::newState(const ThreadBuilder &t, const Element &of, ValueRange inputs,
                                 Value isRun) const {
  auto sumOf = [&](int64_t gate) {
    Value total;
    for (int64_t p = 0; p < shape.layout.parts; ++p) {
      Value at = t.mul(t.add(of.inChunk, p * shape.chunk), shape.sumStride());
      Value one = sharedF32(t, sums, t.add(t.add(at, of.local), gate * shape.units));
      total = total ? t.addF(total, one) : one;
    }
    return total;
  };
  auto withInput = [&](int64_t gate) { return t.addF(sumOf(gate), inputs[gate]); };
  RecurrentCell cell = fastCell(t, op);
  Value old = sharedF32(t, before, of.kept);
  if (op.getCell() == "rnn") {
    return cell.rnn(withInput(0));
  }
  Value unit = t.min(of.unit, t.i32(shape.hidden - 1));
  if (op.getCell() == "gru") {
    Value total = sumOf(2);
    if (Value bias = input(op.getResetBias())) {
      total = t.addF(total, readF32(t, bias, unit));
    }
    total = t.addF(inputs[2], cell.gruReset(withInput(1), total));
    return cell.gru(withInput(0), total, old);
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
  setSharedF32(t, t.select(isRun, next.c, oldCell), cells, of.kept);
  return next.h;
}

/// Whether a step is one of the element's.
Value PersistentKernel::isRun(const ThreadBuilder &t, Value number, const Element &of) const {
  Value isRun =
      both(t, t.isLess(number, lengthOf(t, of)), t.isLess(of.unit, t.i32(shape.hidden)));
  return both(t, isRun, t.isLess(of.row, batch));
}

/// Sends the new states of the thread's elements of a chunk; returns their words (i32).
Values PersistentKernel::computeGates(const ThreadBuilder &t, Value number, Value chunkRow,
                                      ValueRange inputs) const {
  Values words;
  for (int64_t round = 0; round < shape.elements(); ++round) {
    Element of = elementAt(t, chunkRow, round);
    auto compute = [&](const ThreadBuilder &b) -> Values {
      Value isOwn = isRun(b, number, of);
      ValueRange own = inputs.slice(round * shape.gates, shape.gates);
      Value next = newState(b, of, own, isOwn);
      Value kept = b.select(isOwn, next, sharedF32(b, before, of.kept));
      setSharedF32(b, kept, before, of.kept);
      return {sendState(b, number, of, kept)};
    };
    bool isFull = shape.chunk * shape.units % PersistentShape::kThreads == 0;
    words.append(isFull ? compute(t)
                        : t.choose(t.isLess(of.inChunk, t.i32(shape.chunk)), compute,
                                   [&](const ThreadBuilder &b) -> Values { return {b.i32(0)}; }));
  }
  return words;
}

/// A step's states among the results, behind what other blocks wait for. Of two halves in a word
/// the thread of the first writes both, where no row begins in the middle of a word.
void PersistentKernel::writeStates(const ThreadBuilder &t, Value number, Value chunkRow,
                                   ValueRange words) const {
  Value all = output(op.getStates());
  if (!all) {
    return;
  }
  bool isPair = shape.isHalf && shape.hidden % 2 == 0;
  for (auto [round, word] : llvm::enumerate(words)) {
    Element of = elementAt(t, chunkRow, int64_t(round));
    Value isWritten = both(t, t.isLess(of.inChunk, t.i32(shape.chunk)), isRun(t, number, of));
    Value isOdd = t.isEqual(t.rem(of.local, 2), t.i32(1));
    isWritten = isPair ? both(t, isWritten, isNot(t, t.rem(of.local, 2), t.i32(1))) : isWritten;
    t.when(isWritten, [&](const ThreadBuilder &b) {
      Value to = b.offset(all, shape.element, stateIndex(b, timeOf(b, of, number), of));
      if (isPair || !shape.isHalf) {
        return b.store(word, to, 4);
      }
      Value own = b.select(isOdd, shiftRight(b, word, b.i32(16)), word);
      b.store(arith::TruncIOp::create(b.builder, b.location, b.builder.getI16Type(), own), to, 2);
    });
  }
}

} // namespace tenon::codegen::cuda
