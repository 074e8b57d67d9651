// A step: warps multiply their parts of the state with the weights that they hold, sums of all
// parts meet in shared memory, threads compute the gates, the block's part of the new state goes to
// all other blocks. Relies on the blocks of a group running at the same time.
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "engine/KernelAbi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr int64_t kVectorBytes = 16;

Type vectorOfWords(const ThreadBuilder &t) { return t.vectorType(4, t.i32Type()); }

SmallVector<uint32_t> buffersOfGroup(RegionBuilder &region, const PersistentShape &shape,
                                     GridExchange exchange) {
  SmallVector<uint32_t> buffers;
  for (unsigned i = 0; i < region.source.getNumArguments(); ++i) {
    buffers.push_back(region.input(i));
  }
  for (unsigned i = 0; i < region.source.getNumResults(); ++i) {
    buffers.push_back(region.output(i));
  }
  if (shape.layout.grid) {
    buffers.append({exchange.states, exchange.flags});
  }
  return buffers;
}

AffineExpr tilesOf(tn::RecurrenceOp op, const PersistentShape &shape) {
  return tn::getDims(op.getInput().getType())[1].ceilDiv(shape.layout.rows);
}

} // namespace

GridExchange emitGridExchange(RegionBuilder &region, tn::RecurrenceOp op,
                              const PersistentShape &shape) {
  constexpr unsigned threads = 256;
  AffineExpr tiles = tilesOf(op, shape);
  int64_t elements = shape.layout.rows * shape.depth;
  int64_t spread = shape.layout.isTagged() ? 2 : 1;
  GridExchange exchange = {region.addTemporary(tiles * (2 * spread * elements * shape.bytes)),
                           region.addTemporary(tiles * (shape.layout.blocks * 4))};
  unsigned first = cast<BlockArgument>(op.getFirstH()).getArgNumber();
  KernelFrame frame(region, {region.input(first), exchange.states, exchange.flags}, 1, threads);
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
    Value to = b.add(b.mul(b.div(at, elements), 2 * elements), b.rem(at, elements));
    int64_t ofWord = 4 / shape.bytes;
    auto store = [&](Value element, Value place) {
      if (shape.layout.isTagged()) {
        // A word, then its tag.
        Value word = b.mul(b.div(place, ofWord), 2);
        b.store(b.i32(0), b.offset(frame.buffer(1), b.i32Type(), b.add(word, 1)), 4);
        place = b.add(b.mul(word, ofWord), b.rem(place, ofWord));
      }
      b.store(element, b.offset(frame.buffer(1), shape.element, place), shape.bytes);
    };
    store(value[0], to);
    store(zero, b.add(to, elements));
  });
  t.when(t.isLess(at, t.mul(count, shape.layout.blocks)), [&](const ThreadBuilder &b) {
    b.store(b.i32(0), b.offset(frame.buffer(2), b.i32Type(), at), 4);
  });
  frame.finish((tiles * elements).ceilDiv(threads));
  return exchange;
}

void emitPersistent(RegionBuilder &region, tn::RecurrenceOp op, const PersistentShape &shape,
                    int64_t looks) {
  GridExchange exchange;
  if (shape.layout.grid) {
    exchange = emitGridExchange(region, op, shape);
  }
  PersistentKernel(region, op, shape, exchange).emit(looks);
}

PersistentKernel::PersistentKernel(RegionBuilder &region, tn::RecurrenceOp op,
                                   const PersistentShape &shape, GridExchange exchange)
    : region(region), op(op), shape(shape),
      frame(region, buffersOfGroup(region, shape, exchange), region.source.getNumArguments(),
            PersistentShape::kThreads) {
  if (shape.layout.grid) {
    unsigned own = region.source.getNumArguments() + region.source.getNumResults();
    globalStates = frame.buffer(own);
    flags = frame.buffer(own + 1);
  }
}

Value PersistentKernel::input(Value operand) const {
  return operand ? frame.buffer(cast<BlockArgument>(operand).getArgNumber()) : Value();
}

/// Null for a result that nobody reads.
Value PersistentKernel::output(Value result) const {
  func::FuncOp source = region.source;
  for (OpOperand &operand : source.getBody().front().getTerminator()->getOpOperands()) {
    if (result && operand.get() == result) {
      return frame.buffer(source.getNumArguments() + operand.getOperandNumber());
    }
  }
  return Value();
}

Value PersistentKernel::readF32(const ThreadBuilder &t, Value buffer, Value index) const {
  return t.toF32(t.load(shape.element, t.offset(buffer, shape.element, index), shape.bytes));
}

void PersistentKernel::write(const ThreadBuilder &t, Value f32, Value buffer, Value index) const {
  t.store(t.fromF32(shape.element, f32), t.offset(buffer, shape.element, index), shape.bytes);
}

Value PersistentKernel::sharedF32(const ThreadBuilder &t, Value array, Value index) const {
  return t.load(t.f32Type(), t.offset(array, t.f32Type(), index), 4);
}

void PersistentKernel::setSharedF32(const ThreadBuilder &t, Value f32, Value array,
                                    Value index) const {
  t.store(f32, t.offset(array, t.f32Type(), index), 4);
}

/// What is read as vectors first: all parts but the lengths are whole vectors.
void PersistentKernel::divideShared(const ThreadBuilder &t) {
  Value base = frame.dynamicShared();
  int64_t used = 0;
  auto take = [&](int64_t bytes) {
    Value array = t.offset(base, t.builder.getI8Type(), used);
    used += bytes;
    return array;
  };
  const PersistentLayout &layout = shape.layout;
  if (!layout.grid) {
    sharedStates = take(2 * layout.rows * shape.stateStride() * shape.bytes);
  } else if (!shape.isHalf) {
    staged = take(PersistentShape::kWarps * shape.chunk * shape.partDepth * shape.bytes);
  }
  weights = take(shape.kept * PersistentShape::kThreads * 4);
  fresh = take(layout.rows * shape.units * shape.bytes);
  sums = take(layout.parts * shape.chunk * shape.sumStride() * 4);
  before = take(layout.rows * shape.units * 4);
  cells = take(layout.rows * shape.units * 4);
  lengths = take(layout.rows * 4);
}

PersistentKernel::Element PersistentKernel::elementAt(const ThreadBuilder &t, Value chunkRow,
                                                      int64_t round) const {
  return elementOf(t, chunkRow, t.add(thread, round * PersistentShape::kThreads));
}

PersistentKernel::Element PersistentKernel::elementOf(const ThreadBuilder &t, Value chunkRow,
                                                      Value at) const {
  Element of;
  of.inChunk = t.div(at, shape.units);
  of.inTile = t.add(chunkRow, of.inChunk);
  of.row = t.add(t.mul(tile, shape.layout.rows), t.toI64(of.inTile));
  of.local = t.rem(at, shape.units);
  of.unit = t.add(t.mul(rank, shape.units), of.local);
  of.kept = t.add(t.mul(of.inTile, shape.units), of.local);
  return of;
}

/// Rows of the tile with whole chunks: those behind the batch's end need no product.
Value PersistentKernel::usedRows(const ThreadBuilder &t) const {
  Value left = t.sub(batch, t.mul(tile, shape.layout.rows));
  Value used = t.min(t.i64(shape.layout.rows), t.mul(t.ceilDiv(left, shape.chunk), shape.chunk));
  return t.toI32(used);
}

/// Of all rows that the block keeps.
void PersistentKernel::eachElement(
    const ThreadBuilder &t,
    llvm::function_ref<void(const ThreadBuilder &, const Element &)> body) const {
  t.loop(t.i32(0), t.i32(shape.layout.rows), t.i32(shape.chunk), {},
         [&](const ThreadBuilder &b, Value chunkRow, ValueRange) -> Values {
           for (int64_t round = 0; round < shape.elements(); ++round) {
             Element of = elementAt(b, chunkRow, round);
             b.when(b.isLess(of.inChunk, b.i32(shape.chunk)),
                    [&](const ThreadBuilder &c) { body(c, of); });
           }
           return {};
         });
}

Value PersistentKernel::lengthOf(const ThreadBuilder &t, const Element &of) const {
  return t.toI64(t.load(t.i32Type(), t.offset(lengths, t.i32Type(), of.inTile), 4));
}

/// In bounds behind the end of a row's sequence too.
Value PersistentKernel::timeOf(const ThreadBuilder &t, const Element &of, Value number) const {
  if (!op.getReverse()) {
    return number;
  }
  return t.max(t.i64(0), t.sub(t.add(lengthOf(t, of), -1), number));
}

Value PersistentKernel::stateIndex(const ThreadBuilder &t, Value time, const Element &of) const {
  Value at = t.add(t.mul(time, batch), of.row);
  return t.add(t.mul(at, shape.hidden), t.toI64(of.unit));
}

/// The states and cells before the first step.
void PersistentKernel::start(const ThreadBuilder &t) const {
  Value rows = t.i32(shape.layout.rows);
  t.when(t.isLess(thread, rows), [&](const ThreadBuilder &b) {
    Value length = steps;
    if (Value stated = input(op.getLengths())) {
      Value row = b.add(b.mul(tile, shape.layout.rows), b.toI64(thread));
      Value known = b.min(row, b.add(batch, -1));
      Value own = b.load(b.i64Type(), b.offset(stated, b.i64Type(), known), 8);
      length = b.max(b.i64(0), b.min(own, steps));
    }
    b.store(b.toI32(length), b.offset(lengths, b.i32Type(), thread), 4);
  });
  auto first = [&](const ThreadBuilder &b, Value buffer, const Element &of) {
    Value isInside = both(b, b.isLess(of.row, batch), b.isLess(of.unit, b.i32(shape.hidden)));
    return b.choose(
        isInside,
        [&](const ThreadBuilder &c) -> Values {
          return {readF32(c, buffer, c.add(c.mul(of.row, shape.hidden), c.toI64(of.unit)))};
        },
        [&](const ThreadBuilder &c) -> Values { return {c.f32(0)}; })[0];
  };
  eachElement(t, [&](const ThreadBuilder &b, const Element &of) {
    setSharedF32(b, first(b, input(op.getFirstH()), of), before, of.kept);
    if (op.getFirstC()) {
      setSharedF32(b, first(b, input(op.getFirstC()), of), cells, of.kept);
    }
  });
  if (shape.layout.grid) {
    return t.barrier();
  }
  // Both states, so that nothing behind the hidden units is no number.
  int64_t stride = shape.stateStride();
  t.loop(thread, t.i32(shape.layout.rows * stride), t.i32(PersistentShape::kThreads), {},
         [&](const ThreadBuilder &b, Value at, ValueRange) -> Values {
           Value row = b.add(b.mul(tile, shape.layout.rows), b.toI64(b.div(at, stride)));
           Value k = b.rem(at, stride);
           Value isInside = both(b, b.isLess(row, batch), b.isLess(k, b.i32(shape.hidden)));
           Values value = b.choose(
               isInside,
               [&](const ThreadBuilder &c) -> Values {
                 return {readF32(c, input(op.getFirstH()),
                                 c.add(c.mul(row, shape.hidden), c.toI64(k)))};
               },
               [&](const ThreadBuilder &c) -> Values { return {c.f32(0)}; });
           write(b, value[0], sharedStates, at);
           write(b, b.f32(0), sharedStates, b.add(at, shape.layout.rows * stride));
           return {};
         });
  // The memory of a block may be written to only once the block runs.
  if (shape.layout.blocks == 1) {
    return t.barrier();
  }
  t.arriveAtCluster();
  t.waitForCluster();
}

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

/// Until the blocks that compute the warp's part of a state have sent it; returns how many looks
/// are left.
Value PersistentKernel::await(const ThreadBuilder &t, Value number, Value looks) const {
  if (shape.layout.grid != PersistentLayout::kFlags) {
    return looks;
  }
  Value begin = t.mul(part, shape.partDepth);
  Value last =
      t.min(t.i32(shape.layout.blocks - 1), t.div(t.add(begin, shape.partDepth - 1), shape.units));
  Value first = t.min(last, t.div(begin, shape.units));
  Value wanted = t.toI32(number);
  int64_t senders = llvm::divideCeil(shape.partDepth, shape.units) + 1;
  for (int64_t from = 0; from < senders; from += kWarp) {
    Value sender = t.min(last, t.add(t.add(first, lane), from));
    Value at = t.add(t.mul(tile, shape.layout.blocks), t.toI64(sender));
    Value flag = t.offset(flags, t.i32Type(), at);
    auto look = [&](const ThreadBuilder &b) {
      return b.assembly(b.i32Type(), "ld.acquire.gpu.global.b32 $0, [$1];", "=r,l,~{memory}",
                        {flag});
    };
    Values found = loopWhile(
        t, {look(t), looks},
        [&](const ThreadBuilder &w, ValueRange now) {
          return both(w, w.isLess(now[0], wanted), w.isLess(w.i32(0), now[1]));
        },
        [&](const ThreadBuilder &w, ValueRange now) { return Values{look(w), w.add(now[1], -1)}; });
    t.when(t.isLess(found[0], wanted), [&](const ThreadBuilder &b) { reportWait(b); });
    looks = found[1];
  }
  t.warpBarrier();
  return looks;
}

void PersistentKernel::reportWait(const ThreadBuilder &t) const {
  Type byte = t.builder.getI8Type();
  Value one = LLVM::ConstantOp::create(t.builder, t.location, byte, 1);
  t.store(one, t.offset(status, byte, TENON_KERNEL_WAITED), 1);
}

/// Where the state before a step lies.
Value PersistentKernel::stateOf(const ThreadBuilder &t, Value number) const {
  Value parity = t.rem(number, 2);
  if (!shape.layout.grid) {
    int64_t elements = shape.layout.rows * shape.stateStride();
    return t.offset(sharedStates, shape.element, t.mul(parity, elements));
  }
  Value slot = t.add(t.mul(tile, 2), parity);
  return t.offset(globalStates, shape.element,
                  t.mul(slot, shape.layout.rows * shape.depth * (shape.layout.isTagged() ? 2 : 1)));
}

/// The block's part of the state after a step, as vectors.
void PersistentKernel::sendStates(const ThreadBuilder &t, Value number) const {
  const PersistentLayout &layout = shape.layout;
  Value next = stateOf(t, t.add(number, 1));
  int64_t ofRow = shape.units * shape.bytes / kVectorBytes;
  Value vectors = t.mul(usedRows(t), ofRow);
  int64_t stride = layout.grid ? shape.depth : shape.stateStride();
  auto move = [&](const ThreadBuilder &b, Value at, Value target) {
    Value row = b.div(at, ofRow), piece = b.mul(b.rem(at, ofRow), kVectorBytes / shape.bytes);
    Value from = b.offset(fresh, vectorOfWords(b), at);
    Value to = b.add(b.add(b.mul(row, stride), b.mul(rank, shape.units)), piece);
    Value place = b.offset(next, shape.element, to);
    b.store(b.load(vectorOfWords(b), from, kVectorBytes), target ? b.remote(place, target) : place,
            kVectorBytes);
  };
  if (layout.isTagged()) {
    Value tag = t.toI32(t.add(number, 1));
    t.loop(thread, vectors, t.i32(PersistentShape::kThreads), {},
           [&](const ThreadBuilder &b, Value at, ValueRange) -> Values {
             Value word = b.mul(b.rem(at, ofRow), kVectorBytes / 4);
             word = b.add(word, b.mul(rank, shape.units * shape.bytes / 4));
             word = b.add(word, b.mul(b.div(at, ofRow), shape.depth * shape.bytes / 4));
             Value vector =
                 b.load(vectorOfWords(b), b.offset(fresh, vectorOfWords(b), at), kVectorBytes);
             Value place = b.offset(next, b.i32Type(), b.mul(word, 2));
             for (int64_t half = 0; half < 2; ++half) {
               b.assembly(Type(),
                          "{\n.reg .b64 a, b;\nmov.b64 a, {$1, $3};\nmov.b64 b, {$2, $3};\n"
                          "st.relaxed.gpu.global.v2.b64 [$0], {a, b};\n}",
                          "l,r,r,r,~{memory}",
                          {b.offset(place, b.i32Type(), 4 * half), b.extract(vector, 2 * half),
                           b.extract(vector, 2 * half + 1), tag});
             }
             return {};
           });
    return;
  }
  if (layout.grid) {
    // One warp: its lanes' stores come before its flag without the block's threads meeting.
    t.when(t.isEqual(warp, t.i32(0)), [&](const ThreadBuilder &w) {
      w.loop(lane, vectors, w.i32(kWarp), {},
             [&](const ThreadBuilder &b, Value at, ValueRange) -> Values {
               move(b, at, Value());
               return {};
             });
      w.warpBarrier();
      w.when(w.isEqual(lane, w.i32(0)), [&](const ThreadBuilder &b) {
        Value at = b.add(b.mul(tile, layout.blocks), b.toI64(rank));
        b.assembly(Type(), "st.release.gpu.global.b32 [$0], $1;", "l,r,~{memory}",
                   {b.offset(flags, b.i32Type(), at), b.toI32(b.add(number, 1))});
      });
    });
    return;
  }
  t.loop(thread, t.mul(vectors, layout.blocks), t.i32(PersistentShape::kThreads), {},
         [&](const ThreadBuilder &b, Value at, ValueRange) -> Values {
           move(b, b.rem(at, vectors), layout.blocks == 1 ? Value() : b.div(at, vectors));
           return {};
         });
  if (layout.blocks > 1) {
    t.arriveAtCluster();
  }
}

/// Behind it every block of a cluster has the new state.
void PersistentKernel::endStep(const ThreadBuilder &t) const {
  if (shape.layout.grid) {
    return;
  }
  shape.layout.blocks > 1 ? t.waitForCluster() : t.barrier();
}

/// A step's states among the results, behind what other blocks wait for.
void PersistentKernel::writeStates(const ThreadBuilder &t, Value number) const {
  Value all = output(op.getStates());
  if (!all) {
    return;
  }
  int64_t lanes = shape.hidden * shape.bytes % kVectorBytes == 0 ? kVectorBytes / shape.bytes : 1;
  Type type = lanes == 1 ? shape.element : vectorOfWords(t);
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

/// Returns the looks that are left.
Value PersistentKernel::runSteps(const ThreadBuilder &t, Value looks) {
  Value used = usedRows(t);
  // The next chunk's inputs, and the looks.
  Values carried = loadInputs(t, t.i64(0), t.i32(0));
  carried.push_back(looks);
  auto chunkOfStep = [&](const ThreadBuilder &t, Value number, Value state, Value chunkRow,
                         ValueRange own) {
    // What the gates need next is on its way while tensor cores work.
    Value following = t.add(chunkRow, shape.chunk);
    Value isLast = t.isEqual(following, used);
    Values next = loadInputs(t, t.select(isLast, t.add(number, 1), number),
                             t.select(isLast, t.i32(0), following));
    Value wanted = t.toI32(number);
    next.push_back(shape.isHalf ? multiplyHalves(t, state, chunkRow, wanted, own.back())
                                : multiplyFloats(t, state, chunkRow, wanted, own.back()));
    t.barrier();
    computeGates(t, number, chunkRow, own.drop_back());
    t.barrier();
    return next;
  };
  return t
      .loop(t.i64(0), steps, t.i64(1), carried,
            [&](const ThreadBuilder &b, Value number, ValueRange now) -> Values {
              Values own(now);
              own.back() = await(b, number, own.back());
              Value state = stateOf(b, number);
              Values next =
                  b.loop(b.i32(0), used, b.i32(shape.chunk), own,
                         [&](const ThreadBuilder &c, Value chunkRow, ValueRange values) -> Values {
                           return chunkOfStep(c, number, state, chunkRow, values);
                         });
              sendStates(b, number);
              writeStates(b, number);
              endStep(b);
              return next;
            })
      .back();
}

/// The last states, and zeros behind the end of each row's sequence.
void PersistentKernel::finish(const ThreadBuilder &t) const {
  Value all = output(op.getStates());
  eachElement(t, [&](const ThreadBuilder &b, const Element &of) {
    Value isInside = both(b, b.isLess(of.row, batch), b.isLess(of.unit, b.i32(shape.hidden)));
    b.when(isInside, [&](const ThreadBuilder &c) {
      Value at = c.add(c.mul(of.row, shape.hidden), c.toI64(of.unit));
      if (Value last = output(op.getLastH())) {
        write(c, sharedF32(c, before, of.kept), last, at);
      }
      if (Value last = output(op.getLastC())) {
        write(c, sharedF32(c, cells, of.kept), last, at);
      }
      if (!all || !op.getLengths()) {
        return;
      }
      c.loop(lengthOf(c, of), steps, c.i64(1), {},
             [&](const ThreadBuilder &d, Value time, ValueRange) -> Values {
               write(d, d.f32(0), all, stateIndex(d, time, of));
               return {};
             });
    });
  });
}

void PersistentKernel::emit(int64_t looks) {
  ThreadBuilder t = frame.code();
  const PersistentLayout &layout = shape.layout;
  tn::Dims dims = tn::getDims(op.getInput().getType());
  frame.setMinBlocksPerSm(1);
  if (layout.grid) {
    frame.setWholeGrid();
    status = frame.statusPointer();
  } else if (layout.blocks > 1) {
    frame.setCluster(layout.blocks);
  }
  steps = frame.size64(dims[0]);
  batch = frame.size64(dims[1]);
  thread = t.thread();
  lane = t.lane();
  warp = t.div(thread, kWarp);
  part = t.rem(warp, layout.parts);
  group = t.div(warp, layout.parts);
  rank = t.rem(t.block(), layout.blocks);
  divideShared(t);
  holdWeights(t);
  if (!layout.grid && region.source.getArgAttr(cast<BlockArgument>(op.getWeights()).getArgNumber(),
                                               kConstantArgument)) {
    frame.waitHere();
  }
  if (!layout.grid) {
    tile = t.toI64(t.div(t.block(), layout.blocks));
    start(t);
    runSteps(t, t.i32(0));
    finish(t);
    return frame.finish(tilesOf(op, shape) * layout.blocks, shape.sharedBytes());
  }
  Value tiles = frame.size64(tilesOf(op, shape));
  t.loop(t.i64(0), tiles, t.i64(1), {t.i32(looks)},
         [&](const ThreadBuilder &b, Value number, ValueRange now) -> Values {
           tile = number;
           start(b);
           Value left = runSteps(b, now[0]);
           b.barrier();
           finish(b);
           b.barrier();
           return {left};
         });
  frame.finish(getAffineConstantExpr(layout.blocks, region.source.getContext()),
               shape.sharedBytes());
}

} // namespace tenon::codegen::cuda
