// The places of the true elements of a list, by pieces: counts of pieces, running sums of them,
// which say where a piece begins to write, then the places.
#include "compiler/codegen/cuda/base/ElementRun.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/scan/Scan.h"
#include "compiler/codegen/cuda/selection/Selection.h"
#include "compiler/codegen/cuda/selection/Team.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr int64_t kCountThreads = 256, kCountVector = 16,
                  kCountPiece = kCountThreads * kCountVector;

class PositionsKernels {
public:
  PositionsKernels(RegionBuilder &region, tn::TruePositionsOp op, const Ports &ports)
      : region(region), ports(ports), // of an empty list too somebody writes how many are true
        length(tn::getDims(op.getX().getType())[0]), pieces((length + 1).ceilDiv(kCountPiece)),
        team(kCountThreads) {}

  void emit();

private:
  void emitCounts(uint32_t counts);
  void emitPlaces(uint32_t starts, uint32_t counts);
  /// Whether each of the thread's elements is true (i1), which begin at `first` (i64).
  Values load(const ThreadBuilder &t, KernelFrame &frame, Value &first) const;
  Value countOf(const ThreadBuilder &t, ValueRange areTrue) const {
    Value own = t.i32(0);
    for (Value isTrue : areTrue) {
      own = t.add(own, t.select(isTrue, t.i32(1), t.i32(0)));
    }
    return own;
  }

  RegionBuilder &region;
  const Ports &ports;
  AffineExpr length, pieces;
  Team team;
};

Values PositionsKernels::load(const ThreadBuilder &t, KernelFrame &frame, Value &first) const {
  Type byte = t.builder.getI8Type();
  ElementRun run(t, frame.buffer(0), byte, t.i64(0), frame.size64(length));
  Value vector = t.add(t.mul(t.toI64(t.block()), kCountThreads), t.toI64(t.thread()));
  first = t.mul(vector, kCountVector);
  Value none = zeroSum(t, byte);
  Values areTrue;
  for (Value value : run.load(t, vector, none)) {
    areTrue.push_back(isNot(t, value, t.constantOfType(value, 0)));
  }
  return areTrue;
}

void PositionsKernels::emitCounts(uint32_t counts) {
  KernelFrame frame(region, {ports.buffers[0], counts}, 1, kCountThreads);
  ThreadBuilder t = frame.code();
  Value first;
  Value own = countOf(t, load(t, frame, first));
  Value all = team.total(t, own, frame.dynamicShared(), t.i32(0));
  t.when(t.isEqual(t.thread(), t.i32(0)), [&](const ThreadBuilder &b) {
    Value piece = b.toI64(b.block());
    b.store(b.toI64(all), b.offset(frame.buffer(1), b.i64Type(), piece), 8);
  });
  frame.finish(pieces, team.scratchBytes());
}

/// Threads behind those of the elements write nothing: there are none of theirs.
void PositionsKernels::emitPlaces(uint32_t starts, uint32_t counts) {
  KernelFrame frame(region, {ports.buffers[0], starts, counts, ports.buffers[1], ports.buffers[2]},
                    3, kCountThreads);
  ThreadBuilder t = frame.code();
  Type number = t.i64Type();
  Value first;
  Values areTrue = load(t, frame, first);
  Value before = team.prefix(t, countOf(t, areTrue), frame.dynamicShared(), t.i32(0)).first;
  Value piece = t.toI64(t.block()), last = t.add(frame.size64(pieces), -1);
  auto at = [&](unsigned buffer, Value place) {
    return t.offset(frame.buffer(buffer), number, place);
  };
  Value all = t.add(t.load(number, at(1, last), 8), t.load(number, at(2, last), 8));
  Value place = t.add(t.load(number, at(1, piece), 8), t.toI64(before));
  // The places of elements that are not true hold, in order, what is behind the last true one.
  Value behind = t.add(all, t.sub(first, place));
  for (auto [i, isTrue] : llvm::enumerate(areTrue)) {
    Value index = t.add(first, static_cast<int64_t>(i));
    Value target = t.select(isTrue, place, behind);
    Value value = t.select(isTrue, index, t.i64(0));
    t.when(t.isLess(index, frame.size64(length)), [&](const ThreadBuilder &b) {
      b.store(value, b.offset(frame.buffer(3), number, target), 8);
    });
    Value one = t.i64(1), none = t.i64(0);
    place = t.add(place, t.select(isTrue, one, none));
    behind = t.add(behind, t.select(isTrue, none, one));
  }
  t.when(t.isEqual(t.add(t.toI64(t.thread()), piece), t.i64(0)),
         [&](const ThreadBuilder &b) { b.store(all, frame.buffer(4), 8); });
  frame.finish(pieces, team.scratchBytes());
}

void PositionsKernels::emit() {
  MLIRContext *context = region.source.getContext();
  ScanWork sums;
  sums.outer = sums.inner = getAffineConstantExpr(1, context);
  sums.length = pieces;
  sums.element = sums.sum = IntegerType::get(context, 64);
  sums.isExclusive = true;
  sums.input = region.addTemporary(pieces * 8);
  sums.output = region.addTemporary(pieces * 8);
  emitCounts(sums.input);
  emitScan(region, sums, scanLayout(region, sums));
  emitPlaces(sums.output, sums.input);
}

} // namespace

void emitTruePositions(RegionBuilder &region, tn::TruePositionsOp op, const Ports &ports) {
  PositionsKernels(region, op, ports).emit();
}

} // namespace tenon::codegen::cuda
