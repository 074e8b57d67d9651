// Boxes that overlap no better one: a block for each batch and class looks for the best box, then
// strikes out what it overlaps, until none is left.
#include "compiler/codegen/common/lower/Boxes.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/selection/Selection.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr int64_t kSelectionWarps = kSelectionThreads / kWarp;

Value compareFloats(const ThreadBuilder &t, arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(t.builder, t.location, predicate, a, b);
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
        frame(region, ports.buffers, kSelected, kSelectionThreads) {}

  void emit();

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
    return t.loop(thread, end, t.i64(kSelectionThreads), inits, body);
  }

  tn::Dims dims; ///< of the result: batch, class, places
  AffineExpr boxCount;
  Type boxType, scoreType, shareType;
  KernelFrame frame;
  Value thread, count, places; ///< i64
  /// Of the block's batch and class. `open` says of each box whether it may still be selected; only
  /// the thread whose box it is touches it.
  Value boxes, scores, candidates, selected, open;
  Value share;
  Value shared;
};

void BoxKernel::findPlaces(const ThreadBuilder &t) {
  thread = t.toI64(t.thread());
  count = frame.size64(boxCount);
  places = frame.size64(dims[2]);
  Value row = t.toI64(t.block());
  Value batch = t.div(row, frame.size64(dims[1]));
  Type byte = t.builder.getI8Type();
  Value first = t.mul(row, count);
  boxes = t.offset(frame.buffer(kBoxes), boxType, t.mul(t.mul(batch, count), 4));
  scores = t.offset(frame.buffer(kScores), scoreType, first);
  candidates = t.offset(frame.buffer(kCandidates), byte, first);
  open = t.offset(frame.buffer(kOpen), byte, first);
  selected = t.offset(frame.buffer(kSelected), t.i64Type(), t.mul(row, places));
  Value stated = t.load(shareType, frame.buffer(kShare), byteSize(shareType));
  share = widen(t.builder, t.location, stated);
  shared = frame.dynamicShared();
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
        others.push_back(shuffleXor(t, value, mask));
      }
      best = better(t, best, Candidate(others));
    }
  };
  // An array of the warps' scores, then one of their numbers.
  auto address = [&](const ThreadBuilder &b, int64_t array, Value warp) {
    return b.offset(b.offset(shared, b.i64Type(), array * kSelectionWarps), b.i64Type(), warp);
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
    Value warp = t.rem(t.thread(), kSelectionWarps);
    all.push_back(t.load(value.getType(), address(t, array, warp), 8));
  }
  best = Candidate(all);
  // Before the next step writes them.
  t.barrier();
  reduce(kSelectionWarps);
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

void BoxKernel::emit() {
  ThreadBuilder t = frame.code();
  findPlaces(t);
  begin(t);
  Value most = t.min(places, t.load(t.i64Type(), frame.buffer(kLimit), 8));
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
        scf::YieldOp::create(builder, at, ValueRange{b.add(carried[0], b.i64(1)), isFound});
      });
  frame.finish(dims[0] * dims[1], 2 * kSelectionWarps * 8);
}

} // namespace

void emitSelectBoxes(RegionBuilder &region, tn::SelectBoxesOp op, Ports ports) {
  tn::Dims scores = tn::getDims(op.getScores().getType());
  ports.buffers.push_back(region.addTemporary(scores[0] * scores[1] * scores[2]));
  BoxKernel(region, op, ports).emit();
}

} // namespace tenon::codegen::cuda
