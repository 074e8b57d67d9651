// The gates of a persistent recurrence: what they read, what a cell makes of their sums, what goes
// to the results. Relies on the sums of all parts of the depth being in shared memory.
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"

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
  RecurrentCell cell(t.builder, t.location, op);
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

void PersistentKernel::computeGates(const ThreadBuilder &t, Value number, Value chunkRow,
                                    ValueRange inputs) const {
  for (int64_t round = 0; round < shape.elements(); ++round) {
    Element of = elementAt(t, chunkRow, round);
    t.when(t.isLess(of.inChunk, t.i32(shape.chunk)), [&](const ThreadBuilder &b) {
      Value isRun =
          both(b, b.isLess(number, lengthOf(b, of)), b.isLess(of.unit, b.i32(shape.hidden)));
      isRun = both(b, isRun, b.isLess(of.row, batch));
      ValueRange own = inputs.slice(round * shape.gates, shape.gates);
      Value next = newState(b, of, own, isRun);
      Value kept = b.select(isRun, next, sharedF32(b, before, of.kept));
      setSharedF32(b, kept, before, of.kept);
      write(b, kept, fresh, of.kept);
    });
  }
}

/// A step's states among the results, behind what other blocks wait for.
void PersistentKernel::writeStates(const ThreadBuilder &t, Value number) const {
  constexpr int64_t kResultBytes = 16;
  Value all = output(op.getStates());
  if (!all) {
    return;
  }
  int64_t lanes = shape.hidden * shape.bytes % kResultBytes == 0 ? kResultBytes / shape.bytes : 1;
  Type type = lanes == 1 ? shape.element : t.vectorType(4, t.i32Type());
  unsigned alignment = unsigned(lanes * shape.bytes);
  t.loop(t.mul(thread, lanes), t.mul(usedRows(t), shape.units),
         t.i32(PersistentShape::kThreads * lanes), {},
         [&](const ThreadBuilder &b, Value at, ValueRange) -> Values {
           Element of = elementOf(b, b.i32(0), at);
           Value isRun =
               both(b, b.isLess(number, lengthOf(b, of)), b.isLess(of.unit, b.i32(shape.hidden)));
           b.when(both(b, isRun, b.isLess(of.row, batch)), [&](const ThreadBuilder &c) {
             Value to = stateIndex(c, timeOf(c, of, number), of);
             c.store(c.load(type, c.offset(fresh, shape.element, of.kept), alignment),
                     c.offset(all, shape.element, to), alignment);
           });
           return {};
         });
}

} // namespace tenon::codegen::cuda
