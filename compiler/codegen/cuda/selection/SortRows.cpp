// The k first of a row in order: one block sorts the numbers of the row's elements.
#include "compiler/codegen/common/Ranked.h"
#include "compiler/codegen/common/Reduce.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "compiler/codegen/cuda/selection/Selection.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

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

/// Each merge of the bitonic network begins with pairs that mirror each other, so that of every
/// pair the first place gets the element that stands before the other: elements that are missing up
/// to a power of two would stay at the end, and are left out.
class SortKernel {
public:
  SortKernel(RegionBuilder &region, tn::TopKOp topK, const Ports &ports)
      : op(topK), dims(tn::getDims(topK.getX().getType())),
        element(storageType(getElementTypeOrSelf(topK.getX()))),
        shell(*region.kernels, region.symbol, ports.buffers, ports.reads, kSelectionThreads) {}

  RegionStep emit(const target::Target &gpu);

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

void SortKernel::forPairs(const ThreadBuilder &t, Value end,
                          llvm::function_ref<void(const ThreadBuilder &, Value)> body) const {
  t.loop(thread, end, t.i64(kSelectionThreads), {},
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

RegionStep SortKernel::emit(const target::Target &gpu) {
  ThreadBuilder t = shell.code();
  if (gpu.has(target::Feature::DependentLaunch)) {
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

RegionStep emitSortedRows(RegionBuilder &region, tn::TopKOp op, Ports ports) {
  AffineExpr count = tn::elementCount(op.getContext(), tn::getDims(op.getX().getType()));
  ports.buffers.push_back(region.addTemporary(count * 8));
  return SortKernel(region, op, ports).emit(region.gpu);
}

} // namespace tenon::codegen::cuda
