// Recurrent layers: a grid point runs the whole sequence of one row of the batch, a loop over time
// inside. Each step is a GEMV with the recurrent weights, some vectors of columns in registers, and
// the gates on vectors of the state. Relies on weights that lie [hidden, gates * hidden].
#include "compiler/codegen/common/Reduce.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "compiler/codegen/cpu/KernelFamily.h"
#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/base/Levels.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Vectors of columns whose sums are in registers at once.
constexpr int64_t kStrips = 8;

class RecurrenceLowering {
public:
  RecurrenceLowering(KernelBuilder &kernel, func::FuncOp source, engine::CpuLevel level);

  AffineExpr lower();

private:
  Value input(Value operand) const;
  Value output(Value result);
  Value allocate(int64_t count);
  Value load(const IndexMath &math, Value buffer, ValueRange place, Value active) const {
    return loadLanes(math, wide, buffer, place, active);
  }
  void forLanes(const IndexMath &math,
                llvm::function_ref<void(const IndexMath &, Value place, Value active)> body);
  void sumStrips(const IndexMath &math, ValueRange step, Value state, Value first, int64_t strips,
                 Value active, bool isAdded);
  void sumGates(const IndexMath &math, ValueRange step, Value state, int64_t from, int64_t to,
                bool isAdded);
  Value sum(const IndexMath &math, int64_t gate, Value place, Value active) {
    return load(math, sums, math.add(place, math.constant(gate * hidden)), active);
  }
  Value activate(const IndexMath &math, size_t number, Value x);
  Value splat(const IndexMath &math, double value) const {
    FloatAttr number = math.builder.getFloatAttr(wide.getElementType(), value);
    return arith::ConstantOp::create(math.builder, math.location,
                                     DenseElementsAttr::get(wide, Attribute(number)));
  }
  template <typename Op> Value make(const IndexMath &math, Value a, Value b) const {
    return Op::create(math.builder, math.location, a, b);
  }
  void setState(const IndexMath &math, ValueRange step, Value place, Value active, Value h);
  void stepRnn(const IndexMath &math, ValueRange step);
  void stepGru(const IndexMath &math, ValueRange step);
  void stepLstm(const IndexMath &math, ValueRange step);
  void runRow(const IndexMath &math, Value row);

  KernelBuilder &kernel;
  func::FuncOp source;
  tn::RecurrenceOp op;
  int64_t lanes, hidden, width;
  VectorType wide; ///< sums and states of neighbouring columns
  Value x, weights, h, c, gated, sums;
};

RecurrenceLowering::RecurrenceLowering(KernelBuilder &kernel, func::FuncOp source,
                                       engine::CpuLevel level)
    : kernel(kernel), source(source), op(cast<tn::RecurrenceOp>(source.getBody().front().front())),
      lanes(floatLanes(level)) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getWeights().getType()).getShape();
  hidden = shape[0];
  width = shape[1];
  wide = VectorType::get(lanes, accumulatorType(storageType(getElementTypeOrSelf(op.getInput()))));
  x = input(op.getInput());
  weights = input(op.getWeights());
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
  MemRefType type = MemRefType::get({count}, wide.getElementType());
  return memref::AllocOp::create(kernel.builder, kernel.location, type);
}

/// Vectors of the state; `active` is null where all are whole.
void RecurrenceLowering::forLanes(
    const IndexMath &math,
    llvm::function_ref<void(const IndexMath &, Value place, Value active)> body) {
  int64_t whole = hidden / lanes * lanes;
  if (whole > 0) {
    forEach(math, math.constant(0), math.constant(whole), lanes,
            [&](const IndexMath &in, Value place) { body(in, place, Value()); });
  }
  if (whole < hidden) {
    body(math, math.constant(whole), math.constant(hidden - whole));
  }
}

/// sums = (the step's input) + state * weights for some vectors of columns.
void RecurrenceLowering::sumStrips(const IndexMath &math, ValueRange step, Value state, Value first,
                                   int64_t strips, Value active, bool isAdded) {
  SmallVector<Value> starts, columns;
  for (int64_t strip = 0; strip < strips; ++strip) {
    columns.push_back(math.add(first, math.constant(strip * lanes)));
    starts.push_back(isAdded ? load(math, x, {step[0], step[1], columns.back()}, active)
                             : splat(math, 0));
  }
  scf::ForOp loop = scf::ForOp::create(
      math.builder, math.location, math.constant(0), math.constant(hidden), math.constant(1),
      starts, [&](OpBuilder &b, Location location, Value k, ValueRange held) {
        IndexMath in(b, location);
        Value element = memref::LoadOp::create(b, location, state, k);
        Value factor = vector::BroadcastOp::create(b, location, wide, element);
        SmallVector<Value> next;
        for (int64_t strip = 0; strip < strips; ++strip) {
          Value weight = load(in, weights, {k, columns[strip]}, active);
          next.push_back(vector::FMAOp::create(b, location, factor, weight, held[strip]));
        }
        scf::YieldOp::create(b, location, next);
      });
  for (int64_t strip = 0; strip < strips; ++strip) {
    storeLanes(math, loop.getResult(strip), sums, columns[strip], active);
  }
}

/// The columns [from, to), most of them by several vectors.
void RecurrenceLowering::sumGates(const IndexMath &math, ValueRange step, Value state, int64_t from,
                                  int64_t to, bool isAdded) {
  int64_t block = kStrips * lanes, done = from + (to - from) / block * block;
  if (done > from) {
    forEach(math, math.constant(from), math.constant(done), block,
            [&](const IndexMath &in, Value first) {
              sumStrips(in, step, state, first, kStrips, Value(), isAdded);
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

Value RecurrenceLowering::activate(const IndexMath &math, size_t number, Value x) {
  OpBuilder &b = math.builder;
  Location location = math.location;
  StringRef name = cast<StringAttr>(op.getActivations()[number]).getValue();
  Value one = splat(math, 1), zero = splat(math, 0);
  if (name == "tanh") {
    return math::TanhOp::create(b, location, x);
  }
  if (name == "relu") {
    Value isLess = arith::CmpFOp::create(b, location, arith::CmpFPredicate::OLT, x, zero);
    return arith::SelectOp::create(b, location, isLess, zero, x);
  }
  Value magnitude = math::AbsFOp::create(b, location, x);
  if (name == "softsign") {
    return make<arith::DivFOp>(math, x, make<arith::AddFOp>(math, one, magnitude));
  }
  bool isSoftplus = name == "softplus";
  Value exponent = arith::NegFOp::create(b, location, isSoftplus ? magnitude : x);
  Value power = math::ExpOp::create(b, location, exponent);
  Value added = make<arith::AddFOp>(math, one, power);
  if (!isSoftplus) {
    return make<arith::DivFOp>(math, one, added);
  }
  // log(1 + exp(x)) without overflow.
  Value above = make<arith::MaximumFOp>(math, x, zero);
  return make<arith::AddFOp>(math, above, math::LogOp::create(b, location, added));
}

void RecurrenceLowering::setState(const IndexMath &math, ValueRange step, Value place, Value active,
                                  Value value) {
  storeLanes(math, value, h, place, active);
  if (Value states = output(op.getStates())) {
    storeLanes(math, value, states, {step[0], step[1], place}, active);
  }
}

void RecurrenceLowering::stepRnn(const IndexMath &math, ValueRange step) {
  sumGates(math, step, h, 0, width, true);
  forLanes(math, [&](const IndexMath &in, Value place, Value active) {
    setState(in, step, place, active, activate(in, 0, sum(in, 0, place, active)));
  });
}

void RecurrenceLowering::stepGru(const IndexMath &math, ValueRange step) {
  bool isLinear = op.getLinearBeforeReset();
  sumGates(math, step, h, 0, 2 * hidden, true);
  if (isLinear) {
    sumGates(math, step, h, 2 * hidden, width, false);
  } else {
    forLanes(math, [&](const IndexMath &in, Value place, Value active) {
      Value reset = activate(in, 0, sum(in, 1, place, active));
      Value kept = make<arith::MulFOp>(in, reset, load(in, h, place, active));
      storeLanes(in, kept, gated, place, active);
    });
    sumGates(math, step, gated, 2 * hidden, width, true);
  }
  Value bias = input(op.getResetBias());
  forLanes(math, [&](const IndexMath &in, Value place, Value active) {
    Value update = activate(in, 0, sum(in, 0, place, active));
    Value total = sum(in, 2, place, active);
    if (isLinear) {
      Value reset = activate(in, 0, sum(in, 1, place, active));
      total = bias ? make<arith::AddFOp>(in, total, load(in, bias, place, active)) : total;
      Value column = in.add(place, in.constant(2 * hidden));
      Value own = load(in, x, {step[0], step[1], column}, active);
      total = make<arith::AddFOp>(in, own, make<arith::MulFOp>(in, reset, total));
    }
    Value candidate = activate(in, 1, total);
    Value rest = make<arith::SubFOp>(in, splat(in, 1), update);
    Value kept = make<arith::MulFOp>(in, update, load(in, h, place, active));
    Value fresh = make<arith::MulFOp>(in, rest, candidate);
    setState(in, step, place, active, make<arith::AddFOp>(in, fresh, kept));
  });
}

void RecurrenceLowering::stepLstm(const IndexMath &math, ValueRange step) {
  sumGates(math, step, h, 0, width, true);
  Value peephole = input(op.getPeephole());
  forLanes(math, [&](const IndexMath &in, Value place, Value active) {
    // Gates are input, output, forget, candidate; peepholes input, output, forget.
    auto gate = [&](int64_t number, Value cell) {
      Value total = sum(in, number, place, active);
      if (peephole) {
        Value factor = load(in, peephole, in.add(place, in.constant(number * hidden)), active);
        total = make<arith::AddFOp>(in, total, make<arith::MulFOp>(in, factor, cell));
      }
      return activate(in, 0, total);
    };
    Value before = load(in, c, place, active);
    Value added =
        make<arith::MulFOp>(in, gate(0, before), activate(in, 1, sum(in, 3, place, active)));
    Value kept = make<arith::MulFOp>(in, gate(2, before), before);
    Value cell = make<arith::AddFOp>(in, kept, added);
    storeLanes(in, cell, c, place, active);
    Value value = make<arith::MulFOp>(in, gate(1, cell), activate(in, 2, cell));
    setState(in, step, place, active, value);
  });
}

void RecurrenceLowering::runRow(const IndexMath &math, Value row) {
  auto copy = [&](Value from, Value to, bool isFrom) {
    if (!from || !to) {
      return;
    }
    forLanes(math, [&](const IndexMath &in, Value place, Value active) {
      SmallVector<Value> there = {row, place}, here = {place};
      Value vector = load(in, from, isFrom ? there : here, active);
      storeLanes(in, vector, to, isFrom ? here : there, active);
    });
  };
  copy(input(op.getFirstH()), h, true);
  copy(input(op.getFirstC()), c, true);
  Value steps = math.size(kernel, tn::getDims(op.getInput().getType())[0]), length = steps;
  if (Value lengths = input(op.getLengths())) {
    Value stated = memref::LoadOp::create(math.builder, math.location, lengths, row);
    stated = arith::IndexCastOp::create(math.builder, math.location, math.builder.getIndexType(),
                                        stated);
    length = math.max(math.constant(0), math.min(stated, steps));
  }
  forEach(math, math.constant(0), length, 1, [&](const IndexMath &in, Value i) {
    Value last = in.sub(length, in.constant(1));
    SmallVector<Value> step = {op.getReverse() ? in.sub(last, i) : i, row};
    op.getCell() == "lstm"  ? stepLstm(in, step)
    : op.getCell() == "gru" ? stepGru(in, step)
                            : stepRnn(in, step);
  });
  if (Value states = output(op.getStates()); states && op.getLengths()) {
    forEach(math, length, steps, 1, [&](const IndexMath &in, Value time) {
      forLanes(in, [&](const IndexMath &body, Value place, Value active) {
        storeLanes(body, splat(body, 0), states, {time, row, place}, active);
      });
    });
  }
  copy(h, output(op.getLastH()), false);
  copy(c, output(op.getLastC()), false);
}

AffineExpr RecurrenceLowering::lower() {
  IndexMath outside(kernel.builder, kernel.location);
  forEach(outside, kernel.begin, kernel.end, 1,
          [&](const IndexMath &math, Value row) { runRow(math, row); });
  return tn::getDims(op.getInput().getType())[1];
}

} // namespace

bool isRecurrence(func::FuncOp source) {
  Block &body = source.getBody().front();
  tn::RecurrenceOp op = dyn_cast<tn::RecurrenceOp>(body.front());
  return op && llvm::hasSingleElement(body.without_terminator()) &&
         llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>);
}

FailureOr<AffineExpr> lowerRecurrence(KernelBuilder &kernel, func::FuncOp source,
                                      engine::CpuLevel level, int64_t) {
  return RecurrenceLowering(kernel, source, level).lower();
}

} // namespace tenon::codegen::cpu
