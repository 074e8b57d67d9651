// States and sums lie in shared memory, the weights in registers where they fit; blocks of a
// cluster write their part of the new state into the memory of all.
#include "compiler/codegen/cuda/recurrent/RecurrenceKernel.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/recurrent/FastCell.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

SmallVector<uint32_t> buffersOf(RegionBuilder &region) {
  SmallVector<uint32_t> buffers;
  for (unsigned i = 0; i < region.source.getNumArguments(); ++i) {
    buffers.push_back(region.input(i));
  }
  for (unsigned i = 0; i < region.source.getNumResults(); ++i) {
    buffers.push_back(region.output(i));
  }
  return buffers;
}

} // namespace

RecurrenceKernel::RecurrenceKernel(RegionBuilder &region, tn::RecurrenceOp op,
                                   const RecurrenceLayout &layout)
    : region(region), op(op), layout(layout),
      element(storageType(getElementTypeOrSelf(op.getInput()))), sum(sumTypeOf(op)),
      phases(phasesOf(op, layout)),
      frame(region, buffersOf(region), region.source.getNumArguments(), layout.threads) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  hidden = shape[0];
  gates = shape[1] / hidden;
  units = phases[0].units;
  padded = paddedOf(phases);
}

void RecurrenceKernel::divideShared(const ThreadBuilder &t, Value base) {
  int64_t used = 0;
  auto take = [&](int64_t elements) {
    Value array = t.offset(base, sum, used);
    used += elements;
    return array;
  };
  states = take(2 * padded);
  gated = take(padded);
  cells = take(llvm::alignTo(units, Phase::kVector));
  for (Phase &phase : phases) {
    phase.shared = take(phase.sums());
  }
}

Value RecurrenceKernel::input(Value operand) const {
  return operand ? frame.buffer(cast<BlockArgument>(operand).getArgNumber()) : Value();
}

/// Null for a result that nobody reads.
Value RecurrenceKernel::output(Value result) const {
  func::FuncOp source = region.source;
  for (OpOperand &operand : source.getBody().front().getTerminator()->getOpOperands()) {
    if (operand.get() == result) {
      return frame.buffer(source.getNumArguments() + operand.getOperandNumber());
    }
  }
  return Value();
}

Value RecurrenceKernel::read(const ThreadBuilder &t, Value buffer, Value index) const {
  Value stored = t.load(element, t.offset(buffer, element, index), byteSize(element));
  return widen(t.builder, t.location, stored);
}

void RecurrenceKernel::write(const ThreadBuilder &t, Value value, Value buffer, Value index) const {
  Value stored = narrow(t.builder, t.location, value, element);
  t.store(stored, t.offset(buffer, element, index), byteSize(element));
}

/// What threads of the cluster stored before is visible to all after.
void RecurrenceKernel::meet(const ThreadBuilder &t) const {
  if (layout.blocks == 1) {
    return t.barrier();
  }
  t.arriveAtCluster();
  t.waitForCluster();
}

void RecurrenceKernel::eachUnit(
    const ThreadBuilder &t,
    llvm::function_ref<void(const ThreadBuilder &, const Unit &)> body) const {
  Value first = t.mul(rank, units);
  Value end = t.min(t.i32(units), t.sub(t.i32(hidden), first));
  t.loop(thread, end, t.i32(layout.threads), {},
         [&](const ThreadBuilder &b, Value local, ValueRange) -> Values {
           body(b, {local, b.add(first, local)});
           return {};
         });
}

/// The states before the first step, in the shared memory of each block.
void RecurrenceKernel::start(const ThreadBuilder &t) {
  t.loop(thread, t.i32(padded), t.i32(layout.threads), {},
         [&](const ThreadBuilder &b, Value k, ValueRange) -> Values {
           Value known = b.min(k, b.i32(hidden - 1));
           Value first = read(b, input(op.getFirstH()), ofRow(b, known));
           Value isInside = b.isLess(k, b.i32(hidden));
           writeShared(b, b.select(isInside, first, zero(b)), states, k);
           writeShared(b, zero(b), states, b.add(k, padded));
           writeShared(b, zero(b), gated, k);
           return {};
         });
  if (op.getFirstC()) {
    eachUnit(t, [&](const ThreadBuilder &b, const Unit &unit) {
      writeShared(b, read(b, input(op.getFirstC()), ofRow(b, unit.global)), cells, unit.local);
    });
  }
}

/// The column of the weights (i32) that one of the block is; of units behind the last, some other.
Value RecurrenceKernel::columnOf(const ThreadBuilder &t, const Phase &phase, Value local) const {
  Value gate = t.add(t.div(local, units), phase.firstGate);
  Value unit = t.add(t.mul(rank, units), t.rem(local, units));
  return t.add(t.mul(gate, hidden), t.min(unit, t.i32(hidden - 1)));
}

/// The thread's part of a column; zeros behind the end.
Values RecurrenceKernel::holdWeights(const ThreadBuilder &t, const Phase &phase) const {
  Values weights;
  Value column = columnOf(t, phase, t.rem(thread, phase.width));
  Value part = t.min(t.div(thread, phase.width), t.i32(phase.parts - 1));
  for (int64_t i = 0; i < phase.depth; ++i) {
    Value k = t.add(t.mul(part, phase.depth), i);
    Value known = t.min(k, t.i32(hidden - 1));
    Value at = t.add(t.mul(t.toI64(known), gates * hidden), t.toI64(column));
    Value weight = read(t, input(op.getWeights()), at);
    weights.push_back(t.select(t.isLess(k, t.i32(hidden)), weight, zero(t)));
  }
  return weights;
}

Value RecurrenceKernel::loadInput(const ThreadBuilder &t, const Phase &phase, Value number,
                                  Value local) const {
  Value at = t.add(t.mul(timeOf(t, number), batch), row);
  at = t.add(t.mul(at, gates * hidden), t.toI64(columnOf(t, phase, local)));
  return read(t, input(op.getInput()), at);
}

/// The input of a step for each phase of one round, whatever the thread's part; zeros behind the
/// end.
Values RecurrenceKernel::loadInputs(const ThreadBuilder &t, Value number) const {
  Values loaded;
  Value isStep = t.isLess(number, length);
  for (const Phase &phase : phases) {
    Value isRead = phase.isOneRound() ? both(t, isStep, t.isLess(thread, t.i32(phase.columns)))
                                      : t.isLess(t.i32(1), t.i32(0));
    Values value = t.choose(
        isRead,
        [&](const ThreadBuilder &b) -> Values { return {loadInput(b, phase, number, thread)}; },
        [&](const ThreadBuilder &b) -> Values { return {zero(b)}; });
    loaded.push_back(value[0]);
  }
  return loaded;
}

/// The product of the thread's part of the state with its part of a column.
Value RecurrenceKernel::multiply(const ThreadBuilder &t, const Phase &phase, Value state,
                                 Value local) const {
  constexpr int64_t lanes = Phase::kVector;
  Value first = t.mul(t.div(thread, phase.width), phase.depth);
  Values sums(lanes, zero(t));
  auto addVector = [&](const ThreadBuilder &b, Value k, ValueRange weights, Values before) {
    Value factors = b.load(b.vectorType(lanes, sum), sharedAt(b, state, k), 16);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      before[lane] = b.fma(weights[lane], b.extract(factors, lane), before[lane]);
    }
    return before;
  };
  if (!phase.held.empty()) {
    ValueRange held(phase.held);
    for (int64_t k = 0; k < phase.depth; k += lanes) {
      sums = addVector(t, t.add(first, k), held.slice(k, lanes), sums);
    }
  } else {
    Value column = t.toI64(columnOf(t, phase, local)), last = t.i32(hidden - 1);
    Value end = t.min(t.add(first, phase.depth), t.i32(hidden));
    sums = t.loop(
        first, end, t.i32(lanes), sums, [&](const ThreadBuilder &b, Value k, ValueRange before) {
          Values weights;
          for (int64_t lane = 0; lane < lanes; ++lane) {
            // The state is zero behind its end; what is read there is a weight, not NaN.
            Value known = hidden % lanes == 0 ? b.add(k, lane) : b.min(b.add(k, lane), last);
            Value at = b.add(b.mul(b.toI64(known), gates * hidden), column);
            Value weight = read(b, input(op.getWeights()), at);
            Value isInside = b.isLess(b.add(k, lane), b.i32(hidden));
            weights.push_back(hidden % lanes == 0 ? weight : b.select(isInside, weight, zero(b)));
          }
          return addVector(b, k, weights, Values(before));
        });
  }
  return t.addF(t.addF(sums[0], sums[1]), t.addF(sums[2], sums[3]));
}

/// Leaves the sums of all parts of the columns and the input in shared memory.
void RecurrenceKernel::sumGates(const ThreadBuilder &t, const Phase &phase, Value state,
                                Value number, Value ahead) const {
  t.when(t.isLess(thread, t.i32(phase.width * phase.parts)), [&](const ThreadBuilder &in) {
    Value part = in.div(thread, phase.width), column = in.rem(thread, phase.width);
    in.loop(column, in.i32(phase.columns), in.i32(phase.width), {},
            [&](const ThreadBuilder &b, Value local, ValueRange) -> Values {
              Value product = multiply(b, phase, state, local);
              Value at = b.add(b.mul(part, phase.columns), local);
              writeShared(b, product, phase.shared, at);
              b.when(b.isEqual(part, b.i32(0)), [&](const ThreadBuilder &c) {
                Value own = phase.isOneRound() ? ahead : loadInput(c, phase, number, local);
                Value place = c.add(local, phase.parts * phase.columns);
                writeShared(c, own, phase.shared, place);
              });
              return {};
            });
  });
  t.barrier();
}

Value RecurrenceKernel::inputOf(const ThreadBuilder &t, const Phase &phase, int64_t gate,
                                const Unit &unit) const {
  int64_t place = phase.parts * phase.columns + (gate - phase.firstGate) * units;
  return readShared(t, phase.shared, t.add(unit.local, place));
}

/// Of a gate over all parts, with its input or without.
Value RecurrenceKernel::sumOf(const ThreadBuilder &t, const Phase &phase, int64_t gate,
                              const Unit &unit, bool isAdded) const {
  Value total = isAdded ? inputOf(t, phase, gate, unit) : Value();
  for (int64_t part = 0; part < phase.parts; ++part) {
    int64_t place = part * phase.columns + (gate - phase.firstGate) * units;
    Value one = readShared(t, phase.shared, t.add(unit.local, place));
    total = total ? t.addF(total, one) : one;
  }
  return total;
}

/// Stores what belongs to a unit of the block into an array of each block.
void RecurrenceKernel::broadcast(const ThreadBuilder &t, Value value, Value array,
                                 const Unit &unit) const {
  Value at = sharedAt(t, array, unit.global);
  for (int64_t block = 0; block < layout.blocks; ++block) {
    t.store(value, layout.blocks == 1 ? at : t.remote(at, t.i32(block)), byteSize(sum));
  }
}

Value RecurrenceKernel::newState(const ThreadBuilder &t, Value state, const Unit &unit) const {
  RecurrentCell cell = fastCell(t, op);
  if (op.getCell() == "rnn") {
    return cell.rnn(sumOf(t, phases[0], 0, unit, true));
  }
  if (op.getCell() == "gru") {
    Value update = sumOf(t, phases[0], 0, unit, true);
    Value total = sumOf(t, phases.back(), 2, unit, !op.getLinearBeforeReset());
    if (op.getLinearBeforeReset()) {
      Value bias = input(op.getResetBias());
      total = bias ? t.addF(total, read(t, bias, unit.global)) : total;
      total = t.addF(inputOf(t, phases[0], 2, unit),
                     cell.gruReset(sumOf(t, phases[0], 1, unit, true), total));
    }
    return cell.gru(update, total, readShared(t, state, unit.global));
  }
  Values sums, peepholes;
  for (int64_t gate = 0; gate < 4; ++gate) {
    sums.push_back(sumOf(t, phases[0], gate, unit, true));
    if (op.getPeephole() && gate < 3) {
      peepholes.push_back(read(t, input(op.getPeephole()), t.add(unit.global, gate * hidden)));
    }
  }
  RecurrentCell::LstmState next = cell.lstm(sums, peepholes, readShared(t, cells, unit.local));
  writeShared(t, next.c, cells, unit.local);
  return next.h;
}

void RecurrenceKernel::step(const ThreadBuilder &t, Value number, ValueRange aheads) const {
  Value odd = t.toI32(t.rem(number, 2));
  Value state = sharedAt(t, states, t.mul(odd, padded));
  Value next = sharedAt(t, states, t.mul(t.sub(t.i32(1), odd), padded));
  sumGates(t, phases[0], state, number, aheads[0]);
  if (phases.size() > 1) {
    eachUnit(t, [&](const ThreadBuilder &b, const Unit &unit) {
      RecurrentCell gru = fastCell(b, op);
      Value kept =
          gru.gruReset(sumOf(b, phases[0], 1, unit, true), readShared(b, state, unit.global));
      broadcast(b, kept, gated, unit);
    });
    meet(t);
    sumGates(t, phases[1], gated, number, aheads[1]);
  }
  eachUnit(t, [&](const ThreadBuilder &b, const Unit &unit) {
    Value value = newState(b, state, unit);
    broadcast(b, value, next, unit);
    if (Value all = output(op.getStates())) {
      Value at = b.add(b.mul(timeOf(b, number), batch), row);
      write(b, value, all, b.add(b.mul(at, hidden), b.toI64(unit.global)));
    }
  });
  meet(t);
}

/// The last states, and zeros behind the end of the row's sequence.
void RecurrenceKernel::finish(const ThreadBuilder &t) const {
  Value state = sharedAt(t, states, t.mul(t.toI32(t.rem(length, 2)), padded));
  eachUnit(t, [&](const ThreadBuilder &b, const Unit &unit) {
    if (Value last = output(op.getLastH())) {
      write(b, readShared(b, state, unit.global), last, ofRow(b, unit.global));
    }
    if (Value last = op.getLastC() ? output(op.getLastC()) : Value()) {
      write(b, readShared(b, cells, unit.local), last, ofRow(b, unit.global));
    }
    Value all = output(op.getStates());
    if (!all || !op.getLengths()) {
      return;
    }
    b.loop(length, steps, b.i64(1), {},
           [&](const ThreadBuilder &c, Value time, ValueRange) -> Values {
             Value at = c.add(c.mul(time, batch), row);
             write(c, zero(c), all, c.add(c.mul(at, hidden), c.toI64(unit.global)));
             return {};
           });
  });
}

void RecurrenceKernel::emit() {
  ThreadBuilder t = frame.code();
  if (layout.blocks > 1) {
    frame.setCluster(layout.blocks);
  }
  frame.setMinBlocksPerSm(1);
  tn::Dims dims = tn::getDims(op.getInput().getType());
  steps = frame.size64(dims[0]);
  batch = frame.size64(dims[1]);
  thread = t.thread();
  row = t.toI64(t.div(t.block(), layout.blocks));
  rank = t.rem(t.block(), layout.blocks);
  divideShared(t, frame.dynamicShared());
  length = steps;
  if (Value lengths = input(op.getLengths())) {
    Value stated = t.load(t.i64Type(), t.offset(lengths, t.i64Type(), row), 8);
    length = t.max(t.i64(0), t.min(stated, steps));
  }
  start(t);
  if (isHeld(op, layout)) {
    for (Phase &phase : phases) {
      phase.held = holdWeights(t, phase);
    }
  }
  // The memory of a block may be written to only once the block runs.
  meet(t);
  // A step of held weights is shorter than the way of its inputs: two steps' are asked for
  // together.
  int64_t turns = phases[0].held.empty() ? 1 : 2;
  auto loadTurns = [&](const ThreadBuilder &b, Value first) {
    Values loaded;
    for (int64_t turn = 0; turn < turns; ++turn) {
      loaded.append(loadInputs(b, b.add(first, turn)));
    }
    return loaded;
  };
  t.loop(t.i64(0), length, t.i64(turns), loadTurns(t, t.i64(0)),
         [&](const ThreadBuilder &b, Value first, ValueRange aheads) -> Values {
           Values next = loadTurns(b, b.add(first, turns));
           step(b, first, aheads.take_front(phases.size()));
           if (turns > 1) {
             Value second = b.add(first, 1);
             b.when(b.isLess(second, length), [&](const ThreadBuilder &c) {
               step(c, second, aheads.drop_front(phases.size()));
             });
           }
           return next;
         });
  finish(t);
  frame.finish(dims[1] * layout.blocks, sharedBytesOf(op, layout));
}

} // namespace tenon::codegen::cuda
