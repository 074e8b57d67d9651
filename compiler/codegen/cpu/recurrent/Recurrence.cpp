// Recurrent layers: a grid point runs the whole sequence of one row of the batch or of a few, a
// loop over time inside. Each step is a product of the states with the recurrent weights, some
// vectors of columns in registers for each row, and the gates on vectors of the states. Relies on
// weights that lie [hidden, gates * hidden], or in panels of their columns.
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/RecurrentCell.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "engine/Level.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Vectors of sums that are in registers at once: of the 32 registers of 512 bits, or the 16 of
/// 256.
constexpr int64_t kSums512 = 16, kSums256 = 8;
/// Columns of a panel of packed weights: those that a team of rows takes at once.
constexpr int64_t kWeightPanel = 64;
/// Rows of a larger batch that are taken together, so that a weight is loaded once for them; and
/// how large a batch is whose rows would leave threads without work. Chosen, not measured.
constexpr int64_t kTeam = 4, kFewRows = 8;

class RecurrenceLowering {
public:
  RecurrenceLowering(KernelBuilder &kernel, func::FuncOp source, tn::RecurrenceOp op,
                     engine::CpuLevel level);

  AffineExpr lower();

private:
  /// The step that is computed of some rows.
  struct Step {
    Value time, firstRow;
    int64_t rows;
  };
  /// A vector of columns of a row of the team; `active` is null where all lanes are.
  struct Spot {
    Value row, column, active;
  };
  Value input(Value operand) const;
  Value output(Value result);
  Value allocate(int64_t count);
  /// Of an array of the team.
  Value load(const IndexMath &math, Value buffer, const Spot &spot) const {
    return loadLanes(math, wide, buffer, {spot.row, spot.column}, spot.active);
  }
  void store(const IndexMath &math, Value vector, Value buffer, const Spot &spot) const {
    storeLanes(math, vector, buffer, {spot.row, spot.column}, spot.active);
  }
  Value loadShared(const IndexMath &math, Value buffer, const Spot &spot, int64_t gate) const {
    return loadLanes(math, wide, buffer, math.add(spot.column, math.constant(gate * hidden)),
                     spot.active);
  }
  /// Of the recurrent weights, for one element of the state.
  Value loadWeights(const IndexMath &math, Value k, Value column, Value active) const {
    if (!isPacked) {
      return loadLanes(math, wide, weights, {k, column}, active);
    }
    Value panel = math.constant(kWeightPanel);
    return loadLanes(math, wide, weights, {math.div(column, panel), k, math.rem(column, panel)},
                     active);
  }
  void forSpots(const IndexMath &math, int64_t rows,
                llvm::function_ref<void(const IndexMath &, const Spot &)> body);
  void sumStrips(const IndexMath &math, const Step &step, Value state, Value first, int64_t strips,
                 Value active, bool isAdded);
  void sumGates(const IndexMath &math, const Step &step, Value state, int64_t from, int64_t to,
                bool isAdded);
  Value sum(const IndexMath &math, int64_t gate, const Spot &spot) const {
    Value column = math.add(spot.column, math.constant(gate * hidden));
    return load(math, sums, {spot.row, column, spot.active});
  }
  Value splat(const IndexMath &math, double value) const {
    FloatAttr number = math.builder.getFloatAttr(wide.getElementType(), value);
    return arith::ConstantOp::create(math.builder, math.location,
                                     DenseElementsAttr::get(wide, Attribute(number)));
  }
  RecurrentCell cell(const IndexMath &math) {
    return RecurrentCell(math.builder, math.location, op);
  }
  void setState(const IndexMath &math, const Step &step, const Spot &spot, Value value);
  void stepRnn(const IndexMath &math, const Step &step);
  void stepGru(const IndexMath &math, const Step &step);
  void stepLstm(const IndexMath &math, const Step &step);
  void copyStates(const IndexMath &math, Value outside, Value state, Value row, int64_t rows,
                  bool isFrom);
  void runRows(const IndexMath &math, Value row, int64_t rows);

  KernelBuilder &kernel;
  func::FuncOp source;
  tn::RecurrenceOp op;
  int64_t lanes, hidden, width, team = kTeam;
  bool isPacked;
  VectorType wide; ///< sums and states of neighbouring columns
  Value x, weights, h, c, gated, sums;
};

RecurrenceLowering::RecurrenceLowering(KernelBuilder &kernel, func::FuncOp source,
                                       tn::RecurrenceOp op, engine::CpuLevel level)
    : kernel(kernel), source(source), op(op), lanes(floatLanes(level)) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  hidden = shape[0];
  width = shape[1];
  wide = VectorType::get(lanes, accumulatorType(storageType(getElementTypeOrSelf(op.getInput()))));
  std::optional<int64_t> batch = tn::constantDim(tn::getDims(op.getInput().getType())[1]);
  if (op.getLengths() || (batch && *batch <= kFewRows)) {
    team = 1; // rows of several lengths do not stay together
  }
  x = input(op.getInput());
  tn::UnpackOp unpack = op.getWeights().getDefiningOp<tn::UnpackOp>();
  isPacked = unpack != nullptr;
  weights = input(isPacked ? unpack.getPacked() : op.getWeights());
  h = allocate(hidden);
  c = op.getFirstC() ? allocate(hidden) : Value();
  gated = op.getCell() == "gru" ? allocate(hidden) : Value();
  sums = allocate(width);
}

Value RecurrenceLowering::input(Value operand) const {
  return operand ? kernel.input(cast<BlockArgument>(operand).getArgNumber()) : Value();
}

/// Null for a result that nobody reads.
Value RecurrenceLowering::output(Value result) {
  Operation *end = source.getBody().front().getTerminator();
  for (OpOperand &operand : end->getOpOperands()) {
    if (operand.get() == result) {
      return kernel.output(operand.getOperandNumber());
    }
  }
  return Value();
}

Value RecurrenceLowering::allocate(int64_t count) {
  MemRefType type = MemRefType::get({team, count}, wide.getElementType());
  return memref::AllocOp::create(kernel.builder, kernel.location, type);
}

void RecurrenceLowering::forSpots(const IndexMath &math, int64_t rows,
                                  llvm::function_ref<void(const IndexMath &, const Spot &)> body) {
  int64_t whole = hidden / lanes * lanes;
  forEach(math, math.constant(0), math.constant(rows), 1, [&](const IndexMath &inRow, Value row) {
    if (whole > 0) {
      forEach(inRow, inRow.constant(0), inRow.constant(whole), lanes,
              [&](const IndexMath &in, Value column) { body(in, {row, column, Value()}); });
    }
    if (whole < hidden) {
      body(inRow, {row, inRow.constant(whole), inRow.constant(hidden - whole)});
    }
  });
}

/// sums = (the step's input) + state * weights for some vectors of columns of all rows.
void RecurrenceLowering::sumStrips(const IndexMath &math, const Step &step, Value state,
                                   Value first, int64_t strips, Value active, bool isAdded) {
  SmallVector<Value> rows, columns, starts;
  for (int64_t strip = 0; strip < strips; ++strip) {
    columns.push_back(math.add(first, math.constant(strip * lanes)));
  }
  for (int64_t row = 0; row < step.rows; ++row) {
    rows.push_back(math.constant(row));
    for (Value column : columns) {
      Value place[] = {step.time, math.add(step.firstRow, rows.back()), column};
      starts.push_back(isAdded ? loadLanes(math, wide, x, place, active) : splat(math, 0));
    }
  }
  scf::ForOp loop = scf::ForOp::create(
      math.builder, math.location, math.constant(0), math.constant(hidden), math.constant(1),
      starts, [&](OpBuilder &b, Location location, Value k, ValueRange held) {
        IndexMath in(b, location);
        SmallVector<Value> loaded, next;
        for (Value column : columns) {
          loaded.push_back(loadWeights(in, k, column, active));
        }
        for (Value row : rows) {
          Value element = memref::LoadOp::create(b, location, state, ValueRange{row, k});
          Value factor = vector::BroadcastOp::create(b, location, wide, element);
          for (Value weight : loaded) {
            next.push_back(vector::FMAOp::create(b, location, factor, weight, held[next.size()]));
          }
        }
        scf::YieldOp::create(b, location, next);
      });
  for (int64_t i = 0; i < step.rows * strips; ++i) {
    store(math, loop.getResult(i), sums, {rows[i / strips], columns[i % strips], active});
  }
}

/// The columns [from, to), most of them by several vectors.
void RecurrenceLowering::sumGates(const IndexMath &math, const Step &step, Value state,
                                  int64_t from, int64_t to, bool isAdded) {
  int64_t most = (lanes == 16 ? kSums512 : kSums256) / step.rows, block = most * lanes,
          done = from + (to - from) / block * block;
  if (done > from) {
    forEach(math, math.constant(from), math.constant(done), block,
            [&](const IndexMath &in, Value first) {
              sumStrips(in, step, state, first, most, Value(), isAdded);
            });
  }
  if (int64_t strips = (to - done) / lanes) {
    sumStrips(math, step, state, math.constant(done), strips, Value(), isAdded);
    done += strips * lanes;
  }
  if (done < to) {
    sumStrips(math, step, state, math.constant(done), 1, math.constant(to - done), isAdded);
  }
}

void RecurrenceLowering::setState(const IndexMath &math, const Step &step, const Spot &spot,
                                  Value value) {
  store(math, value, h, spot);
  if (Value states = output(op.getStates())) {
    Value place[] = {step.time, math.add(step.firstRow, spot.row), spot.column};
    storeLanes(math, value, states, place, spot.active);
  }
}

void RecurrenceLowering::stepRnn(const IndexMath &math, const Step &step) {
  sumGates(math, step, h, 0, width, true);
  forSpots(math, step.rows, [&](const IndexMath &in, const Spot &spot) {
    setState(in, step, spot, cell(in).rnn(sum(in, 0, spot)));
  });
}

void RecurrenceLowering::stepGru(const IndexMath &math, const Step &step) {
  bool isLinear = op.getLinearBeforeReset();
  sumGates(math, step, h, 0, 2 * hidden, true);
  if (isLinear) {
    sumGates(math, step, h, 2 * hidden, width, false);
  } else {
    forSpots(math, step.rows, [&](const IndexMath &in, const Spot &spot) {
      store(in, cell(in).gruReset(sum(in, 1, spot), load(in, h, spot)), gated, spot);
    });
    sumGates(math, step, gated, 2 * hidden, width, true);
  }
  Value bias = input(op.getResetBias());
  forSpots(math, step.rows, [&](const IndexMath &in, const Spot &spot) {
    RecurrentCell gru = cell(in);
    Value total = sum(in, 2, spot);
    if (isLinear) {
      total = bias ? gru.add(total, loadShared(in, bias, spot, 0)) : total;
      Value place[] = {step.time, in.add(step.firstRow, spot.row),
                       in.add(spot.column, in.constant(2 * hidden))};
      Value own = loadLanes(in, wide, x, place, spot.active);
      total = gru.add(own, gru.gruReset(sum(in, 1, spot), total));
    }
    setState(in, step, spot, gru.gru(sum(in, 0, spot), total, load(in, h, spot)));
  });
}

void RecurrenceLowering::stepLstm(const IndexMath &math, const Step &step) {
  sumGates(math, step, h, 0, width, true);
  Value peephole = input(op.getPeephole());
  forSpots(math, step.rows, [&](const IndexMath &in, const Spot &spot) {
    SmallVector<Value> gates, peepholes;
    for (int64_t gate = 0; gate < 4; ++gate) {
      gates.push_back(sum(in, gate, spot));
      if (peephole && gate < 3) {
        peepholes.push_back(loadShared(in, peephole, spot, gate));
      }
    }
    RecurrentCell::LstmState state = cell(in).lstm(gates, peepholes, load(in, c, spot));
    store(in, state.c, c, spot);
    setState(in, step, spot, state.h);
  });
}

/// Between states of the team and rows from `row` on of an input or a result, if that is there.
void RecurrenceLowering::copyStates(const IndexMath &math, Value outside, Value state, Value row,
                                    int64_t rows, bool isFrom) {
  if (!outside || !state) {
    return;
  }
  forSpots(math, rows, [&](const IndexMath &in, const Spot &spot) {
    Spot there = {in.add(row, spot.row), spot.column, spot.active};
    store(in, load(in, isFrom ? outside : state, isFrom ? there : spot), isFrom ? state : outside,
          isFrom ? spot : there);
  });
}

void RecurrenceLowering::runRows(const IndexMath &math, Value row, int64_t rows) {
  copyStates(math, input(op.getFirstH()), h, row, rows, true);
  copyStates(math, input(op.getFirstC()), c, row, rows, true);
  Value steps = math.size(kernel, tn::getDims(op.getInput().getType())[0]), length = steps;
  if (Value lengths = input(op.getLengths())) {
    Value stated = memref::LoadOp::create(math.builder, math.location, lengths, row);
    stated = arith::IndexCastOp::create(math.builder, math.location, math.builder.getIndexType(),
                                        stated);
    length = math.max(math.constant(0), math.min(stated, steps));
  }
  forEach(math, math.constant(0), length, 1, [&](const IndexMath &in, Value i) {
    Value last = in.sub(length, in.constant(1));
    Step step = {op.getReverse() ? in.sub(last, i) : i, row, rows};
    op.getCell() == "lstm"  ? stepLstm(in, step)
    : op.getCell() == "gru" ? stepGru(in, step)
                            : stepRnn(in, step);
  });
  if (Value states = output(op.getStates()); states && op.getLengths()) {
    forEach(math, length, steps, 1, [&](const IndexMath &in, Value time) {
      forSpots(in, rows, [&](const IndexMath &body, const Spot &spot) {
        Value place[] = {time, body.add(row, spot.row), spot.column};
        storeLanes(body, splat(body, 0), states, place, spot.active);
      });
    });
  }
  copyStates(math, output(op.getLastH()), h, row, rows, false);
  copyStates(math, output(op.getLastC()), c, row, rows, false);
}

AffineExpr RecurrenceLowering::lower() {
  AffineExpr batch = tn::getDims(op.getInput().getType())[1];
  IndexMath outside(kernel.builder, kernel.location);
  forEach(outside, kernel.begin, kernel.end, 1, [&](const IndexMath &math, Value number) {
    if (team == 1) {
      return runRows(math, number, 1);
    }
    Value first = math.mul(number, math.constant(team));
    Value end = math.min(math.add(first, math.constant(team)), math.size(kernel, batch));
    Value isWhole = arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::eq,
                                          math.sub(end, first), math.constant(team));
    scf::IfOp::create(
        math.builder, math.location, isWhole,
        [&](OpBuilder &b, Location location) {
          runRows(IndexMath(b, location), first, team);
          scf::YieldOp::create(b, location);
        },
        [&](OpBuilder &b, Location location) {
          forEach(IndexMath(b, location), first, end, 1,
                  [&](const IndexMath &in, Value row) { runRows(in, row, 1); });
          scf::YieldOp::create(b, location);
        });
  });
  return batch.ceilDiv(team);
}

FamilyMatch matchRecurrence(Region &region) {
  tn::RecurrenceOp op = recurrenceOf(region.source);
  return op ? FamilyMatch::take(op) : FamilyMatch::refuse("not a recurrent layer");
}

/// The recurrent weights in panels of columns, so that a step reads them as they lie.
std::optional<dispatch::WeightLayout> recurrentWeights(Region &,
                                                       const tn::RecurrenceOp &recurrence) {
  tn::RecurrenceOp op = recurrence;
  std::optional<unsigned> input = packableInput(op.getWeights());
  // So that no vector of columns begins in one panel and ends in the next, at any level.
  constexpr int64_t kMaxLanes = 16;
  if (!input || cast<RankedTensorType>(op.getWeights().getType()).getDimSize(0) % kMaxLanes != 0) {
    return std::nullopt;
  }
  return dispatch::WeightLayout{.input = *input, .packing = panelsOf(1, kWeightPanel)};
}

FailureOr<AffineExpr> lowerRecurrence(KernelBuilder &kernel, Region &region,
                                      const tn::RecurrenceOp &op) {
  return RecurrenceLowering(kernel, region.source, op, region.level()).lower();
}

} // namespace

constexpr KernelFamily kRecurrence = {
    .name = "recurrence",
    .what =
        "recurrent layers: rows of the batch through all steps, a product and the gates in each",
    .strategies = {dispatch::kSingle},
    .needs = {"recurrence"},
    .needsElements = true,
    .match = matchRecurrence,
    .weights = on<recurrentWeights>,
    .emit = emitKernel<lowerRecurrence>};

} // namespace tenon::codegen::cpu
