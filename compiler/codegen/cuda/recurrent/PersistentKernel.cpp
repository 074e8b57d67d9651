// The frame of a persistent recurrence: what lies where in shared memory, which elements a thread
// has, what stands before the first step and behind the last. Relies on the blocks of a group
// running at the same time.
#include "compiler/codegen/cuda/recurrent/PersistentKernel.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/base/AsyncCopy.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

SmallVector<uint32_t> buffersOfGroup(RegionBuilder &region, const PersistentShape &shape,
                                     uint32_t states) {
  SmallVector<uint32_t> buffers;
  for (unsigned i = 0; i < region.source.getNumArguments(); ++i) {
    buffers.push_back(region.input(i));
  }
  for (unsigned i = 0; i < region.source.getNumResults(); ++i) {
    buffers.push_back(region.output(i));
  }
  if (shape.layout.grid) {
    buffers.push_back(states);
  }
  return buffers;
}

} // namespace

AffineExpr tilesOfBatch(tn::RecurrenceOp op, const PersistentShape &shape) {
  return tn::getDims(op.getInput().getType())[1].ceilDiv(shape.layout.rows);
}

void emitPersistentLayer(RegionBuilder &region, tn::RecurrenceOp op, const PersistentShape &shape,
                         int64_t looks) {
  uint32_t states = shape.layout.grid ? emitFirstStates(region, op, shape) : 0;
  PersistentKernel(region, op, shape, states).emit(looks);
}

PersistentKernel::PersistentKernel(RegionBuilder &region, tn::RecurrenceOp op,
                                   const PersistentShape &shape, uint32_t states)
    : region(region), op(op), shape(shape),
      frame(region, buffersOfGroup(region, shape, states), region.source.getNumArguments(),
            PersistentShape::kThreads) {
  if (shape.layout.grid) {
    globalStates = frame.buffer(region.source.getNumArguments() + region.source.getNumResults());
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
    arrivals = take(isCluster() ? 2 * kBarrierBytes : 0);
    sharedStates = take(2 * layout.rows * shape.stateStride() * shape.bytes);
  } else if (!shape.isHalf) {
    staged = take(PersistentShape::kWarps * shape.chunk * shape.partDepth * shape.bytes);
  }
  weights = take(shape.kept * PersistentShape::kThreads * 4);
  sums = take(shape.sumBytes());
  before = take(layout.rows * shape.units * 4);
  cells = take(layout.rows * shape.units * 4);
  lengths = take(layout.rows * 4);
}

PersistentKernel::Element PersistentKernel::elementAt(const ThreadBuilder &t, Value chunkRow,
                                                      int64_t round) const {
  if (!shape.isDirect) {
    Value at = t.add(thread, round * PersistentShape::kThreads);
    return elementOf(t, chunkRow, t.div(at, shape.units), t.rem(at, shape.units));
  }
  // [8 units][8 rows][2], as mma.sync leaves the sums.
  int64_t ofRows = shape.chunk / 4, block = round / ofRows, row = round % ofRows / 2 * 8;
  Value first = t.mul(t.add(t.mul(warp, shape.tiles / shape.tilesOfUnits()), block), 8);
  Value inChunk = t.add(t.mul(t.rem(lane, 4), 2), row + round % 2);
  return elementOf(t, chunkRow, inChunk, t.add(first, t.div(lane, 4)));
}

PersistentKernel::Element PersistentKernel::elementOf(const ThreadBuilder &t, Value chunkRow,
                                                      Value inChunk, Value local) const {
  Element of;
  of.inChunk = inChunk;
  of.inTile = t.add(chunkRow, of.inChunk);
  of.row = t.add(t.mul(tile, shape.layout.rows), t.toI64(of.inTile));
  of.local = local;
  of.unit = t.add(t.mul(rank, shape.units), of.local);
  of.kept = t.add(t.mul(of.inTile, shape.units), of.local);
  return of;
}

/// Whether a thread has the element; null if all have.
Value PersistentKernel::isThere(const ThreadBuilder &t, const Element &of) const {
  if (shape.isDirect) {
    bool isFull = shape.units % (8 * PersistentShape::kWarps) == 0;
    return isFull ? Value() : t.isLess(of.local, t.i32(shape.units));
  }
  bool isFull = shape.chunk * shape.units % PersistentShape::kThreads == 0;
  return isFull ? Value() : t.isLess(of.inChunk, t.i32(shape.chunk));
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
             Value isOwn = isThere(b, of);
             isOwn ? b.when(isOwn, [&](const ThreadBuilder &c) { body(c, of); }) : body(b, of);
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
  if (shape.layout.blocks == 1) {
    return t.barrier();
  }
  t.when(t.isEqual(thread, t.i32(0)), [&](const ThreadBuilder &b) {
    for (int64_t number : {1, 2}) {
      initBarrier(b, arrivalsOf(b, b.i64(number)), 1);
      expectState(b, b.i64(number));
    }
    publishBarriers(b);
  });
  // The memory of a block may be written to only once the block runs.
  t.arriveAtCluster();
  t.waitForCluster();
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
    return frame.finish(tilesOfBatch(op, shape) * layout.blocks, shape.sharedBytes());
  }
  Value tiles = frame.size64(tilesOfBatch(op, shape));
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
