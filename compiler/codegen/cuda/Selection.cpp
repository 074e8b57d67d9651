// Selections by a whole block where the loops of codegen/common have one thread: the true elements of a
// list, boxes that overlap no better one (a class a block), the k largest (a row a block). Hand-built
// kernels; all places are i64.
#include "compiler/codegen/common/Boxes.h"
#include "compiler/codegen/common/Ranked.h"
#include "compiler/codegen/common/Reduce.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "compiler/codegen/cuda/KernelShell.h"
#include "compiler/codegen/cuda/Strategies.h"
#include "compiler/graph/TnRare.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr int64_t kThreads = 512;
constexpr int64_t kWarps = kThreads / kWarp;

/// What a selection that is all of a region reads, then writes: the region's buffers.
struct Ports {
  SmallVector<uint32_t> buffers;
  uint32_t reads = 0;
};

/// None where an operand is computed in the region, or a result does not leave it.
std::optional<Ports> portsOf(RegionBuilder &region, Operation *op) {
  Ports ports;
  for (Value operand : op->getOperands()) {
    BlockArgument argument = dyn_cast<BlockArgument>(operand);
    if (!argument) {
      return std::nullopt;
    }
    ports.buffers.push_back(argument.getArgNumber());
  }
  ports.reads = ports.buffers.size();
  OperandRange outputs = op->getBlock()->getTerminator()->getOperands();
  for (Value result : op->getResults()) {
    auto found = llvm::find(outputs, result);
    if (found == outputs.end()) {
      return std::nullopt;
    }
    ports.buffers.push_back(region.output(found - outputs.begin()));
  }
  return outputs.size() == op->getNumResults() ? std::optional(ports) : std::nullopt;
}

Value compareFloats(const ThreadBuilder &t, arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(t.builder, t.location, predicate, a, b);
}
Value both(const ThreadBuilder &t, Value a, Value b) {
  return arith::AndIOp::create(t.builder, t.location, a, b);
}
Value either(const ThreadBuilder &t, Value a, Value b) {
  return arith::OrIOp::create(t.builder, t.location, a, b);
}
Value isNot(const ThreadBuilder &t, Value a, Value b) {
  return arith::CmpIOp::create(t.builder, t.location, arith::CmpIPredicate::ne, a, b);
}

/// A byte of a tensor of bools.
Value holds(const ThreadBuilder &t, Value bools, Value place) {
  Type byte = t.builder.getI8Type();
  Value loaded = t.load(byte, t.offset(bools, byte, place), 1);
  return isNot(t, loaded, t.like(loaded, 0));
}

/// The value of lane ^ mask, of 32 or 64 bits.
Value exchange(const ThreadBuilder &t, Value value, int64_t mask) {
  Type type = value.getType();
  if (type.getIntOrFloatBitWidth() == 32) {
    return t.shuffleXor(value, mask);
  }
  Value words = t.bitcast(t.vectorType(2, t.i32Type()), value);
  Values halves = {t.shuffleXor(t.extract(words, 0), mask), t.shuffleXor(t.extract(words, 1), mask)};
  return t.bitcast(type, t.pack(halves));
}

/// Runs `body`, which gives the next number, while the number is from 1 to below `end`.
void loopWhile(const ThreadBuilder &t, Value number, Value end,
               llvm::function_ref<Value(const ThreadBuilder &, Value)> body) {
  scf::WhileOp::create(
      t.builder, t.location, number.getType(), number,
      [&](OpBuilder &builder, Location at, ValueRange now) {
        ThreadBuilder b(builder, at);
        Value goesOn = both(b, b.isLess(b.i64(0), now[0]), b.isLess(now[0], end));
        scf::ConditionOp::create(builder, at, goesOn, now);
      },
      [&](OpBuilder &builder, Location at, ValueRange now) {
        scf::YieldOp::create(builder, at, body(ThreadBuilder(builder, at), now[0]));
      });
}

/// A number that no box has.
constexpr int64_t kNone = INT64_MAX;

/// The best of a thread's boxes that may still be selected, or of those of more threads.
struct Candidate {
  Value score, number;

  explicit Candidate(ValueRange values) : score(values[0]), number(values[1]) {}
  Values values() const { return {score, number}; }
};

/// One block for each batch and class: its threads look for the best box, then strike out what it
/// overlaps, each among its own boxes, until none is left.
class BoxKernel {
public:
  BoxKernel(RegionBuilder &region, tn::SelectBoxesOp op, const Ports &ports)
      : dims(tn::getDims(op.getSelected().getType())),
        boxCount(tn::getDims(op.getBoxes().getType())[1]),
        boxType(getElementTypeOrSelf(op.getBoxes())),
        scoreType(getElementTypeOrSelf(op.getScores())),
        shareType(getElementTypeOrSelf(op.getOverlap())),
        shell(*region.kernels, region.symbol, ports.buffers, kSelected, kThreads) {}

  RegionStep emit(const engine::CudaArch &arch);

private:
  /// Places in the list of buffers.
  enum Buffer : uint32_t { kBoxes, kScores, kCandidates, kLimit, kShare, kSelected, kOpen };

  void findPlaces(const ThreadBuilder &t);
  void begin(const ThreadBuilder &t) const;
  Candidate ownBest(const ThreadBuilder &t) const;
  Candidate better(const ThreadBuilder &t, const Candidate &a, const Candidate &b) const;
  Candidate bestOfBlock(const ThreadBuilder &t, Candidate candidate) const;
  void select(const ThreadBuilder &t, Value chosen, Value step) const;
  Box box(const ThreadBuilder &t, Value number) const;
  Value score(const ThreadBuilder &t, Value number) const;
  /// A loop over the thread's own boxes.
  Values overOwn(const ThreadBuilder &t, Value end, ValueRange inits,
                 ThreadBuilder::LoopBody body) const {
    return t.loop(thread, end, t.i64(kThreads), inits, body);
  }

  tn::Dims dims; ///< of the result: batch, class, places
  AffineExpr boxCount;
  Type boxType, scoreType, shareType;
  KernelShell shell;
  Value thread, count, places; ///< i64
  /// Of the block's batch and class. `open` says of each box whether it may still be selected; only the
  /// thread whose box it is touches it.
  Value boxes, scores, candidates, selected, open;
  Value share;
  Value shared;
};

void BoxKernel::findPlaces(const ThreadBuilder &t) {
  thread = t.wide(t.thread());
  count = shell.size(boxCount);
  places = shell.size(dims[2]);
  Value row = t.wide(t.block());
  Value batch = t.div(row, shell.size(dims[1]));
  Type byte = t.builder.getI8Type();
  Value first = t.mul(row, count);
  boxes = t.offset(shell.buffer(kBoxes), boxType, t.mul(t.mul(batch, count), 4));
  scores = t.offset(shell.buffer(kScores), scoreType, first);
  candidates = t.offset(shell.buffer(kCandidates), byte, first);
  open = t.offset(shell.buffer(kOpen), byte, first);
  selected = t.offset(shell.buffer(kSelected), t.i64Type(), t.mul(row, places));
  Value stated = t.load(shareType, shell.buffer(kShare), byteSize(shareType));
  share = widen(t.builder, t.location, stated);
  shared = shell.shared();
}

/// Nothing is selected yet, and every candidate may be.
void BoxKernel::begin(const ThreadBuilder &t) const {
  Type byte = t.builder.getI8Type();
  overOwn(t, places, {}, [&](const ThreadBuilder &b, Value i, ValueRange) -> Values {
    b.store(b.i64(-1), b.offset(selected, b.i64Type(), i), 8);
    return {};
  });
  overOwn(t, count, {}, [&](const ThreadBuilder &b, Value i, ValueRange) -> Values {
    b.store(b.load(byte, b.offset(candidates, byte, i), 1), b.offset(open, byte, i), 1);
    return {};
  });
}

Value BoxKernel::score(const ThreadBuilder &t, Value number) const {
  Value stored = t.load(scoreType, t.offset(scores, scoreType, number), byteSize(scoreType));
  return scoreOf(t.builder, t.location, stored);
}

Box BoxKernel::box(const ThreadBuilder &t, Value number) const {
  Values corners;
  Value first = t.offset(boxes, boxType, t.mul(number, 4));
  for (int64_t i = 0; i < 4; ++i) {
    Value corner = t.load(boxType, t.offset(first, boxType, i), byteSize(boxType));
    corners.push_back(widen(t.builder, t.location, corner));
  }
  return makeBox(t.builder, t.location, corners);
}

/// The better of two, of equals the one that comes first.
Candidate BoxKernel::better(const ThreadBuilder &t, const Candidate &a, const Candidate &b) const {
  Value none = t.i64(kNone);
  Value isMore = compareFloats(t, arith::CmpFPredicate::OGT, b.score, a.score);
  Value isEqual = compareFloats(t, arith::CmpFPredicate::OEQ, b.score, a.score);
  Value isTaken = either(t, isMore, both(t, isEqual, t.isLess(b.number, a.number)));
  isTaken = both(t, isNot(t, b.number, none), either(t, isTaken, t.isEqual(a.number, none)));
  return Candidate({t.select(isTaken, b.score, a.score), t.select(isTaken, b.number, a.number)});
}

Candidate BoxKernel::ownBest(const ThreadBuilder &t) const {
  Type wide = accumulatorType(scoreType);
  Value zero = arith::ConstantOp::create(t.builder, t.location, t.builder.getZeroAttr(wide));
  Values none = {zero, t.i64(kNone)};
  return Candidate(
      overOwn(t, count, none, [&](const ThreadBuilder &b, Value i, ValueRange carried) {
        Value number = b.select(holds(b, open, i), i, b.i64(kNone));
        return better(b, Candidate(carried), Candidate({score(b, i), number})).values();
      }));
}

/// First of each warp, then of all warps. Each thread gets it.
Candidate BoxKernel::bestOfBlock(const ThreadBuilder &t, Candidate best) const {
  auto reduce = [&](int64_t lanes) {
    for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
      Values others;
      for (Value value : best.values()) {
        others.push_back(exchange(t, value, mask));
      }
      best = better(t, best, Candidate(others));
    }
  };
  // An array of the warps' scores, then one of their numbers.
  auto address = [&](const ThreadBuilder &b, int64_t array, Value warp) {
    return b.offset(b.offset(shared, b.i64Type(), array * kWarps), b.i64Type(), warp);
  };
  reduce(kWarp);
  t.when(t.isEqual(t.lane(), t.i32(0)), [&](const ThreadBuilder &b) {
    for (auto [array, value] : llvm::enumerate(best.values())) {
      Value warp = b.div(b.thread(), kWarp);
      b.store(value, address(b, array, warp), 8);
    }
  });
  t.barrier();
  Values all;
  for (auto [array, value] : llvm::enumerate(best.values())) {
    Value warp = t.rem(t.thread(), kWarps);
    all.push_back(t.load(value.getType(), address(t, array, warp), 8));
  }
  best = Candidate(all);
  // Before the next step writes them.
  t.barrier();
  reduce(kWarps);
  return best;
}

void BoxKernel::select(const ThreadBuilder &t, Value chosen, Value step) const {
  t.when(t.isEqual(thread, t.i64(0)), [&](const ThreadBuilder &b) {
    b.store(chosen, b.offset(selected, b.i64Type(), step), 8);
  });
  Box taken = box(t, chosen);
  overOwn(t, count, {}, [&](const ThreadBuilder &b, Value i, ValueRange) -> Values {
    Value isOver = overlaps(b.builder, b.location, taken, box(b, i), share);
    b.when(either(b, isOver, b.isEqual(i, chosen)), [&](const ThreadBuilder &c) {
      Type byte = c.builder.getI8Type();
      Value no = arith::ConstantOp::create(c.builder, c.location, c.builder.getZeroAttr(byte));
      c.store(no, c.offset(open, byte, i), 1);
    });
    return {};
  });
}

RegionStep BoxKernel::emit(const engine::CudaArch &arch) {
  ThreadBuilder t = shell.code();
  if (arch.number >= 90) {
    t.waitForPredecessors();
    t.launchDependents();
  }
  findPlaces(t);
  begin(t);
  Value most = t.min(places, t.load(t.i64Type(), shell.buffer(kLimit), 8));
  Value isAny = arith::ConstantOp::create(t.builder, t.location, t.builder.getBoolAttr(true));
  scf::WhileOp::create(
      t.builder, t.location, TypeRange{t.i64Type(), isAny.getType()}, ValueRange{t.i64(0), isAny},
      [&](OpBuilder &builder, Location at, ValueRange carried) {
        ThreadBuilder b(builder, at);
        Value goesOn = both(b, b.isLess(carried[0], most), carried[1]);
        scf::ConditionOp::create(builder, at, goesOn, carried);
      },
      [&](OpBuilder &builder, Location at, ValueRange carried) {
        ThreadBuilder b(builder, at);
        Candidate best = bestOfBlock(b, ownBest(b));
        Value isFound = isNot(b, best.number, b.i64(kNone));
        b.when(isFound, [&](const ThreadBuilder &c) { select(c, best.number, carried[0]); });
        scf::YieldOp::create(builder, at,
                             ValueRange{b.add(carried[0], b.i64(1)), isFound});
      });
  return shell.finish(dims[0] * dims[1], 2 * kWarps * 8);
}

/// The places of the true elements in order, then zeros, and how many are true: each thread looks at
/// a part of the list, once to count and once to write.
RegionStep emitTruePositions(RegionBuilder &region, tn::TruePositionsOp op, const Ports &ports) {
  KernelShell shell(*region.kernels, region.symbol, ports.buffers, ports.reads, kThreads);
  ThreadBuilder t = shell.code();
  if (region.arch.number >= 90) {
    t.waitForPredecessors();
    t.launchDependents();
  }
  Type number = t.i64Type();
  Value bools = shell.buffer(0), positions = shell.buffer(1), total = shell.buffer(2);
  Value count = shell.size(tn::getDims(op.getX().getType())[0]);
  Value thread = t.wide(t.thread()), one = t.i64(1), none = t.i64(0);
  Value part = t.ceilDiv(count, kThreads);
  Value first = t.min(t.mul(thread, part), count), end = t.min(t.add(first, part), count);
  Value own = t.loop(first, end, one, none, [&](const ThreadBuilder &b, Value i, ValueRange sum) {
    return Values{b.add(sum[0], b.select(holds(b, bools, i), one, none))};
  })[0];
  // Running sums over the threads, by twice the distance in each step.
  Value shared = shell.shared();
  Value mine = t.offset(shared, number, thread);
  t.store(own, mine, 8);
  t.barrier();
  Value sum = own;
  for (int64_t distance = 1; distance < kThreads; distance *= 2) {
    Value isFar = t.isLess(thread, t.i64(distance));
    Value other = t.select(isFar, thread, t.sub(thread, t.i64(distance)));
    Value before = t.load(number, t.offset(shared, number, other), 8);
    sum = t.add(sum, t.select(isFar, none, before));
    t.barrier();
    t.store(sum, mine, 8);
    t.barrier();
  }
  t.loop(first, end, one, t.sub(sum, own),
         [&](const ThreadBuilder &b, Value i, ValueRange place) -> Values {
           Value isTrue = holds(b, bools, i);
           b.when(isTrue, [&](const ThreadBuilder &c) {
             c.store(i, c.offset(positions, number, place[0]), 8);
           });
           return {b.add(place[0], b.select(isTrue, one, none))};
         });
  Value all = t.load(number, t.offset(shared, number, kThreads - 1), 8);
  t.loop(t.add(all, thread), count, t.i64(kThreads), {},
         [&](const ThreadBuilder &b, Value i, ValueRange) -> Values {
           b.store(none, b.offset(positions, number, i), 8);
           return {};
         });
  t.when(t.isEqual(thread, none), [&](const ThreadBuilder &b) { b.store(all, total, 8); });
  return shell.finish(getAffineConstantExpr(1, number.getContext()), kThreads * 8);
}

/// One block sorts the numbers of a row's elements. Each merge of the bitonic network begins with pairs
/// that mirror each other, so that of every pair the first place gets the element that stands before the
/// other: elements that are missing up to a power of two would stay at the end, and are left out.
class SortKernel {
public:
  SortKernel(RegionBuilder &region, tn::TopKOp topK, const Ports &ports)
      : op(topK), dims(tn::getDims(topK.getX().getType())),
        element(storageType(getElementTypeOrSelf(topK.getX()))),
        shell(*region.kernels, region.symbol, ports.buffers, ports.reads, kThreads) {}

  RegionStep emit(const engine::CudaArch &arch);

private:
  void findPlaces(const ThreadBuilder &t);
  Value elementAt(const ThreadBuilder &t, Value number) const;
  /// Puts the elements at two places in order, if there are both.
  void order(const ThreadBuilder &t, Value first, Value second) const;
  /// For numbers from the thread's own on, below `end`: pairs of one step, then a barrier.
  void forPairs(const ThreadBuilder &t, Value end,
                llvm::function_ref<void(const ThreadBuilder &, Value pair)> body) const;
  void merge(const ThreadBuilder &t, Value half) const;
  tn::TopKOp op;
  tn::Dims dims;
  Type element;
  KernelShell shell;
  Value thread, count, wanted; ///< i64
  Value inner;                 ///< elements from one along the axis to the next
  Value x, values, indices;    ///< of the block's row
  Value numbers;               ///< of its elements, in the order so far
};

void SortKernel::findPlaces(const ThreadBuilder &t) {
  int64_t axis = op.getAxis();
  AffineExpr one = getAffineConstantExpr(1, op.getContext()), stride = one;
  for (AffineExpr dim : llvm::drop_begin(dims, axis + 1)) {
    stride = stride * dim;
  }
  thread = t.wide(t.thread());
  count = shell.size(dims[axis]);
  wanted = shell.size(tn::getDims(op.getValues().getType())[axis]);
  inner = shell.size(stride);
  Value row = t.wide(t.block());
  Value outer = t.div(row, inner), column = t.rem(row, inner);
  auto start = [&](Value length) { return t.add(t.mul(t.mul(outer, length), inner), column); };
  x = t.offset(shell.buffer(0), element, start(count));
  values = t.offset(shell.buffer(1), element, start(wanted));
  indices = t.offset(shell.buffer(2), t.i64Type(), start(wanted));
  numbers = t.offset(shell.buffer(3), t.i64Type(), t.mul(row, count));
}

Value SortKernel::elementAt(const ThreadBuilder &t, Value number) const {
  return t.load(element, t.offset(x, element, t.mul(number, inner)), byteSize(element));
}

void SortKernel::order(const ThreadBuilder &t, Value first, Value second) const {
  t.when(t.isLess(second, count), [&](const ThreadBuilder &b) {
    Type number = b.i64Type();
    Value places[] = {b.offset(numbers, number, first), b.offset(numbers, number, second)};
    Ranked ranked[2];
    for (int i = 0; i < 2; ++i) {
      ranked[i].index = b.load(number, places[i], 8);
      ranked[i].value = widen(b.builder, b.location, elementAt(b, ranked[i].index));
    }
    Value isLate = isBefore(b.builder, b.location, op, ranked[1], ranked[0]);
    b.when(isLate, [&](const ThreadBuilder &c) {
      c.store(ranked[1].index, places[0], 8);
      c.store(ranked[0].index, places[1], 8);
    });
  });
}

void SortKernel::forPairs(
    const ThreadBuilder &t, Value end,
    llvm::function_ref<void(const ThreadBuilder &, Value)> body) const {
  t.loop(thread, end, t.i64(kThreads), {},
         [&](const ThreadBuilder &b, Value pair, ValueRange) -> Values {
           body(b, pair);
           return {};
         });
  t.barrier();
}

/// Sorted runs of `half` elements become runs of twice as many.
void SortKernel::merge(const ThreadBuilder &t, Value half) const {
  Value run = t.mul(half, 2);
  Value pairs = t.mul(t.div(t.add(count, t.add(run, t.i64(-1))), run), half);
  forPairs(t, pairs, [&](const ThreadBuilder &b, Value pair) {
    Value start = b.mul(b.div(pair, half), run), within = b.rem(pair, half);
    order(b, b.add(start, within), b.sub(b.add(start, b.add(run, b.i64(-1))), within));
  });
  loopWhile(t, t.div(half, 2), half, [&](const ThreadBuilder &b, Value distance) {
    forPairs(b, pairs, [&](const ThreadBuilder &c, Value pair) {
      Value first = c.add(c.mul(c.div(pair, distance), c.mul(distance, 2)), c.rem(pair, distance));
      order(c, first, c.add(first, distance));
    });
    return b.div(distance, 2);
  });
}

RegionStep SortKernel::emit(const engine::CudaArch &arch) {
  ThreadBuilder t = shell.code();
  if (arch.number >= 90) {
    t.waitForPredecessors();
    t.launchDependents();
  }
  findPlaces(t);
  forPairs(t, count, [&](const ThreadBuilder &b, Value i) {
    b.store(i, b.offset(numbers, b.i64Type(), i), 8);
  });
  loopWhile(t, t.i64(1), count, [&](const ThreadBuilder &b, Value half) {
    merge(b, half);
    return b.mul(half, 2);
  });
  forPairs(t, wanted, [&](const ThreadBuilder &b, Value i) {
    Value number = b.load(b.i64Type(), b.offset(numbers, b.i64Type(), i), 8);
    Value place = b.mul(i, inner);
    b.store(elementAt(b, number), b.offset(values, element, place), byteSize(element));
    b.store(number, b.offset(indices, b.i64Type(), place), 8);
  });
  AffineExpr rows = getAffineConstantExpr(1, op.getContext());
  for (auto [i, dim] : llvm::enumerate(dims)) {
    rows = i == static_cast<size_t>(op.getAxis()) ? rows : rows * dim;
  }
  return shell.finish(rows, 0);
}

} // namespace

FailureOr<bool> emitSelection(RegionBuilder &region) {
  Operation *op = region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  tn::TruePositionsOp find = dyn_cast_or_null<tn::TruePositionsOp>(op);
  tn::SelectBoxesOp select = dyn_cast_or_null<tn::SelectBoxesOp>(op);
  tn::TopKOp topK = dyn_cast_or_null<tn::TopKOp>(op);
  bool isSelection = find || select || (topK && takesMany(topK));
  std::optional<Ports> ports = isSelection ? portsOf(region, op) : std::nullopt;
  if (!ports) {
    return false;
  }
  if (find) {
    region.code.steps.push_back(emitTruePositions(region, find, *ports));
    return true;
  }
  if (topK) {
    AffineExpr count = tn::elementCount(op->getContext(), tn::getDims(topK.getX().getType()));
    ports->buffers.push_back(region.addTemporary(count * 8));
    region.code.steps.push_back(SortKernel(region, topK, *ports).emit(region.arch));
    return true;
  }
  tn::Dims scores = tn::getDims(select.getScores().getType());
  ports->buffers.push_back(region.addTemporary(scores[0] * scores[1] * scores[2]));
  region.code.steps.push_back(BoxKernel(region, select, *ports).emit(region.arch));
  return true;
}

} // namespace tenon::codegen::cuda
