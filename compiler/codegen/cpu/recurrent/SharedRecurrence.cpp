// Wide recurrent layers: all threads work on one step at a time, each on blocks of the hidden units
// for all rows of the batch. A step reads its weights once, however many rows there are, and a
// thread has the same blocks in all steps, so that what its caches hold of the weights stays there.
//
// A round is a step, or half of one where the candidate of a GRU waits for all reset gates. Any
// thread takes any block of a round that nobody has taken, and goes on when all blocks are done: no
// thread waits for one that has not begun, so that fewer threads than there are grid points, or
// threads that come late, only take longer. Relies on weights in panels of their columns. One file:
// rounds, and what a block of one computes for each cell, over the same arrays.
#include "compiler/codegen/common/math/RecurrentCell.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/base/SharedMemory.h"
#include "compiler/codegen/cpu/gemm/ProductCalls.h"
#include "engine/Level.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Hidden units of a block: a panel of each gate.
constexpr int64_t kBlockUnits = kPanel;
/// Rows that have no need of kernels that hold a block of rows and columns in registers.
constexpr int64_t kFewestRows = 4;
/// Places of a panel that are read at once for them. Measured: 1, 4 and 8.
constexpr int64_t kStreams = 4;
/// Words of 64 bits from one that is shared to the next: a line of the caches each.
constexpr int64_t kLineWords = 8;
/// The words before those of the blocks: threads that have come, blocks done in all rounds, grid
/// points that are through.
enum SharedWordNumber : int64_t { kThreads, kDone, kThrough, kFirstBlock };

class SharedRecurrenceLowering {
public:
  SharedRecurrenceLowering(KernelBuilder &kernel, Region &region, tn::RecurrenceOp op);

  AffineExpr lower();

private:
  /// The temporaries, as one of the two kernels has them.
  struct Arrays {
    Value words;
    Value states;  ///< [2, batch, hidden]: those before a step and behind it take turns
    Value cells;   ///< [batch, hidden], of an LSTM
    Value gated;   ///< [batch, hidden], of a GRU: the states times their reset gates
    Value updates; ///< the same: sums of the update gates
  };
  /// What one block of a round is about.
  struct Place {
    Value step, time, before, after; ///< `before` and `after` are numbers of states
    Value block, firstUnit;
  };
  /// A vector of units in a row.
  struct Units {
    Value row, inBlock, unit;
  };
  /// [batch, hidden] from an element of a line on.
  struct Rows {
    Value line, first;
  };
  bool isGru() const { return op.getCell() == "gru"; }
  bool isLstm() const { return op.getCell() == "lstm"; }
  /// Vectors of sums that are in registers at once: of the 32 registers of AVX-512 and NEON, or the
  /// 16 of AVX2.
  int64_t mostSums() const { return lanes == 8 ? 8 : 16; }
  bool isHalved() const { return isGru() && !op.getLinearBeforeReset(); }
  Value batch(const IndexMath &math, const KernelBuilder &of) const {
    return math.size(of, tn::getDims(op.getInput().getType())[1]);
  }
  Value input(const KernelBuilder &of, Value operand) const {
    return operand ? of.input(cast<BlockArgument>(operand).getArgNumber()) : Value();
  }
  Value output(Value result) const;
  Arrays arraysOf(const IndexMath &math, const KernelBuilder &of) const;
  void declareArrays();
  void prepare();
  SharedWord word(const IndexMath &math, int64_t number) const {
    return SharedWord(math, arrays.words, math.constant(number * kLineWords));
  }
  void runRounds(const IndexMath &math, Value firstRound);
  void takeBlocks(const IndexMath &math, Value round, Value seat);
  void runBlock(const IndexMath &math, Value round, Value block);
  void leave(const IndexMath &math);
  void multiply(const IndexMath &math, const Place &place, const Rows &from, int64_t firstGate,
                int64_t endGate);
  void multiplyFew(const IndexMath &math, Value panel, const Rows &from, Value gate, int64_t count);
  void forUnits(const IndexMath &math, const Place &place,
                llvm::function_ref<void(const IndexMath &, const Units &)> body);
  Value load(const IndexMath &math, Value buffer, ValueRange place) const {
    return loadLanes(math, wide, buffer, place, Value());
  }
  Value product(const IndexMath &math, int64_t gate, const Units &units) const {
    return load(math, sums, {math.constant(gate), units.row, units.inBlock});
  }
  Value own(const IndexMath &math, const Place &place, int64_t gate, const Units &units) const {
    Value column = math.add(units.unit, math.constant(gate * hidden));
    return load(math, x, {place.time, units.row, column});
  }
  Value sum(const IndexMath &math, const Place &place, int64_t gate, const Units &units) const {
    return cell(math).add(own(math, place, gate, units), product(math, gate, units));
  }
  RecurrentCell cell(const IndexMath &math) const {
    return RecurrentCell(math.builder, math.location, op);
  }
  Value before(const IndexMath &math, const Place &place, const Units &units) const {
    return load(math, arrays.states, {place.before, units.row, units.unit});
  }
  void setState(const IndexMath &math, const Place &place, const Units &units, Value value);
  void stepRnn(const IndexMath &math, const Place &place);
  void stepLstm(const IndexMath &math, const Place &place);
  void stepGru(const IndexMath &math, const Place &place);
  void resetGru(const IndexMath &math, const Place &place);
  void endGru(const IndexMath &math, const Place &place);

  KernelBuilder &kernel;
  Region &region;
  mutable tn::RecurrenceOp op; ///< a handle, whose accessors are not const
  int64_t hidden, gates, blocks, lanes;
  VectorType wide;
  Arrays arrays;
  Value x, weights, sums, rows, steps;
};

SharedRecurrenceLowering::SharedRecurrenceLowering(KernelBuilder &kernel, Region &region,
                                                   tn::RecurrenceOp op)
    : kernel(kernel), region(region), op(op), lanes(floatLanes(region.level())) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  hidden = shape[0];
  gates = shape[1] / hidden;
  blocks = hidden / kBlockUnits;
  wide = VectorType::get(lanes, kernel.builder.getF32Type());
}

/// Null for a result that nobody reads.
Value SharedRecurrenceLowering::output(Value result) const {
  Operation *end = region.source.getBody().front().getTerminator();
  for (OpOperand &operand : end->getOpOperands()) {
    if (operand.get() == result) {
      return kernel.output(operand.getOperandNumber());
    }
  }
  return Value();
}

void SharedRecurrenceLowering::declareArrays() {
  MLIRContext *context = kernel.builder.getContext();
  AffineExpr states = tn::getDims(op.getInput().getType())[1] * (hidden * sizeof(float));
  AffineExpr words =
      getAffineConstantExpr((kFirstBlock + blocks) * kLineWords * sizeof(int64_t), context);
  SmallVector<AffineExpr> bytes = {words, states * 2};
  if (isLstm() || isHalved()) {
    bytes.push_back(states);
  }
  if (isHalved()) {
    bytes.push_back(states);
  }
  declareTemporaries(kernel, bytes);
}

SharedRecurrenceLowering::Arrays SharedRecurrenceLowering::arraysOf(const IndexMath &math,
                                                                    const KernelBuilder &of) const {
  OpBuilder &b = math.builder;
  unsigned position = region.source.getNumArguments() + region.source.getNumResults();
  OpFoldResult count = getAsOpFoldResult(batch(math, of)), width = b.getIndexAttr(hidden);
  auto next = [&](Type element, ArrayRef<OpFoldResult> sizes) {
    return temporaryAt(math, of.function(), position++, element, sizes);
  };
  Arrays all;
  OpFoldResult words = b.getIndexAttr((kFirstBlock + blocks) * kLineWords);
  all.words = next(b.getI64Type(), {words});
  all.states = next(b.getF32Type(), {b.getIndexAttr(2), count, width});
  if (isLstm()) {
    all.cells = next(b.getF32Type(), {count, width});
  }
  if (isHalved()) {
    all.gated = next(b.getF32Type(), {count, width});
    all.updates = next(b.getF32Type(), {count, width});
  }
  return all;
}

/// The kernel that runs first: the words and the states before the first step.
void SharedRecurrenceLowering::prepare() {
  KernelBuilder first(region.kernels, preparingSymbol(region.symbol), region.source);
  IndexMath math(first.builder, first.location);
  Arrays all = arraysOf(math, first);
  forEach(math, math.constant(0), math.constant((kFirstBlock + blocks) * kLineWords), kLineWords,
          [&](const IndexMath &in, Value number) {
            SharedWord(in, all.words, number).set(in, in.toI64(in.constant(0)));
          });
  Value firstH = input(first, op.getFirstH()), firstC = input(first, op.getFirstC());
  forEach(math, math.constant(0), batch(math, first), 1, [&](const IndexMath &inRow, Value row) {
    forEach(inRow, inRow.constant(0), inRow.constant(hidden), lanes,
            [&](const IndexMath &in, Value unit) {
              storeLanes(in, load(in, firstH, {row, unit}), all.states, {in.constant(0), row, unit},
                         Value());
              if (firstC) {
                storeLanes(in, load(in, firstC, {row, unit}), all.cells, {row, unit}, Value());
              }
            });
  });
}

/// The sums of few rows: a panel is read with as few instructions as there can be and in several
/// streams, neighbours of the depth with sums of their own, since what counts is how much of the
/// weights is on its way.
void SharedRecurrenceLowering::multiplyFew(const IndexMath &math, Value panel, const Rows &from,
                                           Value gate, int64_t count) {
  int64_t vectors = kPanel / lanes, parts = std::max<int64_t>(1, mostSums() / (count * vectors));
  int64_t streams = std::min(parts, kStreams), neighbours = parts / streams;
  TypedAttr zeros = math.builder.getZeroAttr(wide);
  Value zero = arith::ConstantOp::create(math.builder, math.location, zeros);
  SmallVector<Value> starts(parts * count * vectors, zero);
  scf::ForOp loop = scf::ForOp::create(
      math.builder, math.location, math.constant(0), math.constant(hidden / parts),
      math.constant(1), starts, [&](OpBuilder &b, Location location, Value k, ValueRange held) {
        IndexMath in(b, location);
        SmallVector<Value> next;
        for (int64_t part = 0; part < parts; ++part) {
          Value own =
              in.add(in.mul(k, neighbours),
                     in.constant(part / neighbours * (hidden / streams) + part % neighbours));
          SmallVector<Value> loaded;
          for (int64_t i = 0; i < vectors; ++i) {
            loaded.push_back(load(in, weights, {panel, own, in.constant(i * lanes)}));
          }
          for (int64_t row = 0; row < count; ++row) {
            Value place = in.add(in.add(from.first, in.constant(row * hidden)), own);
            Value element = memref::LoadOp::create(b, location, from.line, place);
            Value factor = vector::BroadcastOp::create(b, location, wide, element);
            for (Value weight : loaded) {
              next.push_back(vector::FMAOp::create(b, location, factor, weight, held[next.size()]));
            }
          }
        }
        scf::YieldOp::create(b, location, next);
      });
  for (int64_t i = 0; i < count * vectors; ++i) {
    Value total = loop.getResult(i);
    for (int64_t part = 1; part < parts; ++part) {
      total = cell(math).add(total, loop.getResult(part * count * vectors + i));
    }
    Value place[] = {gate, math.constant(i / vectors), math.constant(i % vectors * lanes)};
    storeLanes(math, total, sums, place, Value());
  }
}

/// The sums of the units of a block for some gates over all rows of `from`.
void SharedRecurrenceLowering::multiply(const IndexMath &math, const Place &place, const Rows &from,
                                        int64_t firstGate, int64_t endGate) {
  SmallVector<int64_t> few = llvm::to_vector(
      llvm::seq_inclusive<int64_t>(1, std::min(kFewestRows, mostSums() / (kPanel / lanes))));
  forEach(math, math.constant(firstGate), math.constant(endGate), 1,
          [&](const IndexMath &in, Value gate) {
            Value panel = in.add(place.block, in.mul(gate, blocks));
            scf::IndexSwitchOp chosen = scf::IndexSwitchOp::create(
                in.builder, in.location, TypeRange(), rows, few, few.size());
            OpBuilder::InsertionGuard guard(in.builder);
            for (auto [count, body] : llvm::zip(few, chosen.getCaseRegions())) {
              in.builder.createBlock(&body);
              multiplyFew(in, panel, from, gate, count);
              scf::YieldOp::create(in.builder, in.location);
            }
            in.builder.createBlock(&chosen.getDefaultRegion());
            Value panelRows = in.constant(kPanel);
            callProduct(in, kernel.function(),
                        {in.pointer(from.line, from.first), in.constant(hidden),
                         in.pointer(weights, in.mul(panel, hidden * kPanel)), panelRows,
                         in.pointer(sums, in.mul(in.mul(rows, kPanel), gate)), panelRows,
                         in.constant(hidden), rows, Value()});
            scf::YieldOp::create(in.builder, in.location);
          });
}

void SharedRecurrenceLowering::forUnits(
    const IndexMath &math, const Place &place,
    llvm::function_ref<void(const IndexMath &, const Units &)> body) {
  forEach(math, math.constant(0), rows, 1, [&](const IndexMath &inRow, Value row) {
    forEach(inRow, inRow.constant(0), inRow.constant(kBlockUnits), lanes,
            [&](const IndexMath &in, Value inBlock) {
              body(in, {row, inBlock, in.add(place.firstUnit, inBlock)});
            });
  });
}

void SharedRecurrenceLowering::setState(const IndexMath &math, const Place &place,
                                        const Units &units, Value value) {
  storeLanes(math, value, arrays.states, {place.after, units.row, units.unit}, Value());
  if (Value states = output(op.getStates())) {
    storeLanes(math, value, states, {place.time, units.row, units.unit}, Value());
  }
}

void SharedRecurrenceLowering::stepRnn(const IndexMath &math, const Place &place) {
  forUnits(math, place, [&](const IndexMath &in, const Units &units) {
    setState(in, place, units, cell(in).rnn(sum(in, place, 0, units)));
  });
}

void SharedRecurrenceLowering::stepLstm(const IndexMath &math, const Place &place) {
  Value peephole = input(kernel, op.getPeephole());
  forUnits(math, place, [&](const IndexMath &in, const Units &units) {
    SmallVector<Value> sumsOfGates, peepholes;
    for (int64_t gate = 0; gate < gates; ++gate) {
      sumsOfGates.push_back(sum(in, place, gate, units));
      if (peephole && gate < 3) {
        peepholes.push_back(load(in, peephole, in.add(units.unit, in.constant(gate * hidden))));
      }
    }
    Value c = load(in, arrays.cells, {units.row, units.unit});
    RecurrentCell::LstmState state = cell(in).lstm(sumsOfGates, peepholes, c);
    storeLanes(in, state.c, arrays.cells, {units.row, units.unit}, Value());
    setState(in, place, units, state.h);
  });
}

/// Of a GRU whose reset gate is behind the product.
void SharedRecurrenceLowering::stepGru(const IndexMath &math, const Place &place) {
  Value bias = input(kernel, op.getResetBias());
  forUnits(math, place, [&](const IndexMath &in, const Units &units) {
    RecurrentCell gru = cell(in);
    Value total = product(in, 2, units);
    total = bias ? gru.add(total, load(in, bias, units.unit)) : total;
    total = gru.add(own(in, place, 2, units), gru.gruReset(sum(in, place, 1, units), total));
    setState(in, place, units, gru.gru(sum(in, place, 0, units), total, before(in, place, units)));
  });
}

void SharedRecurrenceLowering::resetGru(const IndexMath &math, const Place &place) {
  forUnits(math, place, [&](const IndexMath &in, const Units &units) {
    Value gated = cell(in).gruReset(sum(in, place, 1, units), before(in, place, units));
    storeLanes(in, gated, arrays.gated, {units.row, units.unit}, Value());
    storeLanes(in, sum(in, place, 0, units), arrays.updates, {units.row, units.unit}, Value());
  });
}

void SharedRecurrenceLowering::endGru(const IndexMath &math, const Place &place) {
  forUnits(math, place, [&](const IndexMath &in, const Units &units) {
    Value update = load(in, arrays.updates, {units.row, units.unit});
    setState(in, place, units,
             cell(in).gru(update, sum(in, place, 2, units), before(in, place, units)));
  });
}

void SharedRecurrenceLowering::runBlock(const IndexMath &math, Value round, Value block) {
  Value halves = math.constant(isHalved() ? 2 : 1), two = math.constant(2);
  Place place;
  place.step = math.div(round, halves);
  place.time =
      op.getReverse() ? math.sub(math.sub(steps, math.constant(1)), place.step) : place.step;
  place.before = math.rem(place.step, two);
  place.after = math.sub(math.constant(1), place.before);
  place.block = block;
  place.firstUnit = math.mul(block, math.constant(kBlockUnits));
  auto statesBefore = [&](const IndexMath &in) {
    return Rows{in.asLine(arrays.states), in.mul(place.before, in.mul(rows, in.constant(hidden)))};
  };
  if (isHalved()) {
    Value isFirst = math.isLess(math.rem(round, two), math.constant(1));
    scf::IfOp::create(
        math.builder, math.location, isFirst,
        [&](OpBuilder &b, Location location) {
          IndexMath in(b, location);
          multiply(in, place, statesBefore(in), 0, 2);
          resetGru(in, place);
          scf::YieldOp::create(b, location);
        },
        [&](OpBuilder &b, Location location) {
          IndexMath in(b, location);
          multiply(in, place, {in.asLine(arrays.gated), in.constant(0)}, 2, gates);
          endGru(in, place);
          scf::YieldOp::create(b, location);
        });
  } else {
    multiply(math, place, statesBefore(math), 0, gates);
    isLstm() ? stepLstm(math, place) : isGru() ? stepGru(math, place) : stepRnn(math, place);
  }
  Value lastH = output(op.getLastH()), lastC = output(op.getLastC());
  if (!lastH && !lastC) {
    return;
  }
  // Of a halved step the first half copies what the second then writes again.
  Value isLast = math.isLess(math.sub(steps, math.constant(2)), place.step);
  scf::IfOp::create(math.builder, math.location, isLast, [&](OpBuilder &b, Location location) {
    forUnits(IndexMath(b, location), place, [&](const IndexMath &in, const Units &units) {
      if (lastH) {
        Value h = load(in, arrays.states, {place.after, units.row, units.unit});
        storeLanes(in, h, lastH, {units.row, units.unit}, Value());
      }
      if (lastC) {
        Value c = load(in, arrays.cells, {units.row, units.unit});
        storeLanes(in, c, lastC, {units.row, units.unit}, Value());
      }
    });
    scf::YieldOp::create(b, location);
  });
}

/// A thread begins with the blocks of its own part, then takes others' from their ends.
void SharedRecurrenceLowering::takeBlocks(const IndexMath &math, Value round, Value seat) {
  OpBuilder &b = math.builder;
  Value count = math.constant(blocks), one = math.constant(1);
  Value come = arith::IndexCastOp::create(b, math.location, b.getIndexType(),
                                          word(math, kThreads).load(math));
  Value threads = math.min(come, count), number = math.rem(seat, threads);
  Value start = math.div(math.mul(number, count), threads);
  Value end = math.div(math.mul(math.add(number, one), count), threads);
  Value ofOwn = math.sub(end, start), roundWord = math.toI64(round);
  Value roundAfter = math.toI64(math.add(round, one));
  forEach(math, math.constant(0), count, 1, [&](const IndexMath &in, Value i) {
    Value behind = in.sub(in.add(end, count), in.add(one, in.sub(i, ofOwn)));
    Value isOwn = in.isLess(i, ofOwn);
    Value chosen = arith::SelectOp::create(in.builder, in.location, isOwn, in.add(start, i),
                                           in.sub(behind, ofOwn));
    Value block = in.rem(chosen, count);
    Value line = in.mul(in.add(block, in.constant(kFirstBlock)), in.constant(kLineWords));
    SharedWord taken(in, arrays.words, line);
    Value isFree = arith::CmpIOp::create(in.builder, in.location, arith::CmpIPredicate::eq,
                                         taken.load(in), roundWord);
    scf::IfOp::create(in.builder, in.location, isFree, [&](OpBuilder &b, Location location) {
      IndexMath inFree(b, location);
      Value isMine = taken.exchange(inFree, roundWord, roundAfter);
      scf::IfOp::create(b, location, isMine, [&](OpBuilder &body, Location location) {
        IndexMath inMine(body, location);
        runBlock(inMine, round, block);
        word(inMine, kDone).add(inMine, inMine.toI64(inMine.constant(1)));
        scf::YieldOp::create(body, location);
      });
      scf::YieldOp::create(b, location);
    });
  });
}

void SharedRecurrenceLowering::runRounds(const IndexMath &math, Value firstRound) {
  Value seat = word(math, kThreads).add(math, math.toI64(math.constant(1)));
  seat = arith::IndexCastOp::create(math.builder, math.location, math.builder.getIndexType(), seat);
  Value rounds = math.mul(steps, math.constant(isHalved() ? 2 : 1));
  forEach(math, firstRound, rounds, 1, [&](const IndexMath &in, Value round) {
    takeBlocks(in, round, seat);
    Value done = in.mul(in.add(round, in.constant(1)), in.constant(blocks));
    word(in, kDone).waitFor(in, in.toI64(done), region.level());
  });
}

/// The last call sets the words back, so that the kernel can run again alone, as profiles run it.
void SharedRecurrenceLowering::leave(const IndexMath &math) {
  Value points = math.sub(kernel.end, kernel.begin);
  Value through = word(math, kThrough).add(math, math.toI64(points));
  Value all = arith::AddIOp::create(math.builder, math.location, through, math.toI64(points));
  Value isLast = arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::eq, all,
                                       math.toI64(math.constant(blocks)));
  scf::IfOp::create(math.builder, math.location, isLast, [&](OpBuilder &b, Location location) {
    IndexMath inLast(b, location);
    forEach(inLast, inLast.constant(0), inLast.constant((kFirstBlock + blocks) * kLineWords),
            kLineWords, [&](const IndexMath &in, Value number) {
              SharedWord(in, arrays.words, number).set(in, in.toI64(in.constant(0)));
            });
    scf::YieldOp::create(b, location);
  });
}

AffineExpr SharedRecurrenceLowering::lower() {
  declareArrays();
  prepare();
  IndexMath math(kernel.builder, kernel.location);
  arrays = arraysOf(math, kernel);
  rows = batch(math, kernel);
  steps = math.size(kernel, tn::getDims(op.getInput().getType())[0]);
  x = input(kernel, op.getInput());
  weights = input(kernel, op.getWeights().getDefiningOp<tn::UnpackOp>().getPacked());
  MemRefType sumsType =
      MemRefType::get({gates, ShapedType::kDynamic, kPanel}, kernel.builder.getF32Type());
  sums = memref::AllocOp::create(kernel.builder, kernel.location, sumsType, ValueRange{rows});
  Value done = arith::IndexCastOp::create(math.builder, math.location, math.builder.getIndexType(),
                                          word(math, kDone).load(math));
  Value firstRound = math.div(done, math.constant(blocks));
  Value rounds = math.mul(steps, math.constant(isHalved() ? 2 : 1));
  scf::IfOp::create(math.builder, math.location, math.isLess(firstRound, rounds),
                    [&](OpBuilder &b, Location location) {
                      runRounds(IndexMath(b, location), firstRound);
                      scf::YieldOp::create(b, location);
                    });
  leave(math);
  return getAffineConstantExpr(blocks, kernel.builder.getContext());
}

/// Bytes of weights from which on a step takes longer than threads wait for each other, and what
/// is predicted of fewer, in times of rows that are computed each on its own. Measured.
constexpr int64_t kLeastBytes = 1 << 20;
constexpr double kWaitingFactor = 2;

FamilyMatch matchSharedRecurrence(Region &region) {
  tn::RecurrenceOp op = recurrenceOf(region.source);
  if (!op) {
    return FamilyMatch::refuse("not a recurrent layer");
  }
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  bool isFloat = llvm::all_of(op->getOperandTypes(),
                              [](Type type) { return getElementTypeOrSelf(type).isF32(); });
  if (op.getLengths() || !isFloat) {
    return FamilyMatch::refuse("rows have lengths of their own, or elements are no f32");
  }
  if (shape[0] % kBlockUnits != 0) {
    return FamilyMatch::refuse("the hidden units fill no blocks of " + std::to_string(kBlockUnits));
  }
  if (!packableInput(op.getWeights()) && !op.getWeights().getDefiningOp<tn::UnpackOp>()) {
    return FamilyMatch::refuse("the weights are no constant of their own");
  }
  return FamilyMatch::take(op);
}

double sharedRecurrenceSeconds(Region &region, const tn::RecurrenceOp &recurrence,
                               const dispatch::KernelChoice &) {
  tn::RecurrenceOp op = recurrence;
  int64_t count = cast<RankedTensorType>(op.getWeights().getType()).getNumElements();
  bool isWide = count * static_cast<int64_t>(sizeof(float)) >= kLeastBytes;
  return ratedSeconds(region) * (isWide ? 1 : kWaitingFactor);
}

std::optional<dispatch::WeightLayout> sharedRecurrenceWeights(Region &,
                                                              const tn::RecurrenceOp &recurrence) {
  tn::RecurrenceOp op = recurrence;
  std::optional<unsigned> input = packableInput(op.getWeights());
  if (!input) {
    return std::nullopt;
  }
  return dispatch::WeightLayout{.input = *input, .packing = panelsOf(1, kPanel)};
}

FailureOr<AffineExpr> lowerSharedRecurrence(KernelBuilder &kernel, Region &region,
                                            const tn::RecurrenceOp &op) {
  return SharedRecurrenceLowering(kernel, region, op).lower();
}

} // namespace

constexpr KernelFamily kRecurrenceShared = {
    .name = "recurrence_shared",
    .what = "wide recurrent layers: all threads share each step, blocks of hidden units for all "
            "rows of the batch",
    .strategies = {dispatch::kSingle},
    .needs = {"recurrence"},
    .needsElements = true,
    .match = matchSharedRecurrence,
    .seconds = on<sharedRecurrenceSeconds>,
    .weights = on<sharedRecurrenceWeights>,
    .emit = emitKernel<lowerSharedRecurrence>};

} // namespace tenon::codegen::cpu
