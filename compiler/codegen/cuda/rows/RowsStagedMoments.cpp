// Sum and squares around the mean of a row, in one pass over shared memory.
//
// Of 16-bit floats from the sum and the sum of squares of what a warp has, unless too little is
// left of the squares without the mean: their elements need not wait for each other. That, and to
// receive another row's results before it is known, is what layer norm of 262,144 needs to be read
// at 4.03 TB/s on an H200 instead of 3.94: all blocks of a cluster wait for the last one to get
// there.
//
// Else around the mean m of the thread's first strip, and then moved to that of all its elements.
// Of n elements with k in a strip, n (m - mean)^2 is at most n / k times the squares around the
// mean, as the strip's own are among them: so the difference loses no more than a few bits,
// whatever the elements are.
#include "compiler/codegen/cuda/rows/RowsStaged.h"

#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/rows/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {

namespace {

using tuning::kSumsBeside;
/// What must be left of the squares without the mean: the difference loses 6 bits of 24 at most.
constexpr double kMinLeft = 1.0 / 64;

Value total(const ThreadBuilder &t, const Combiner &sum, ArrayRef<Value> values) {
  SmallVector<Accumulators> parts =
      llvm::map_to_vector(values, [](Value value) { return Accumulators{value}; });
  return sum.combine(t.builder, t.location, std::move(parts))[0];
}

} // namespace

bool StagedRows::isByPowerSums(const Round &round) {
  Value tensor = round.joint ? round.joint->momentsOf() : Value();
  return tensor && getElementTypeOrSelf(tensor).getIntOrFloatBitWidth() == 16 && !isRefilled();
}

Accumulators StagedRows::beginReduction(ThreadCombiner &threads, const Round &round) {
  if (!isByPowerSums(round)) {
    return reduceOwn(round);
  }
  Accumulators sums = ownPowerSums(round);
  for (Value &value : sums) {
    value = threads.combineLanes(round.combiners[0], kWarp, {value})[0];
  }
  return sums;
}

Accumulators StagedRows::finishReduction(ThreadCombiner &threads, const Round &round,
                                         Accumulators begun) {
  if (!isByPowerSums(round)) {
    return threads.ofWarp(round, std::move(begun));
  }
  ThreadBuilder t(builder, location);
  Value sum = begun[0], squares = begun[1];
  Value part = t.f32(-1.0 / static_cast<double>(round.count * kWarp));
  Value left = t.fma(t.mulF(sum, part), sum, squares);
  return t.choose(
      t.isLessF(left, t.mulF(squares, t.f32(kMinLeft))),
      [&](const ThreadBuilder &careful) {
        OpBuilder::InsertionGuard guard(builder);
        builder.restoreInsertionPoint(careful.builder.saveInsertionPoint());
        return threads.ofWarp(round, reduceOwn(round));
      },
      [&](const ThreadBuilder &) { return Accumulators{sum, left}; });
}

Accumulators StagedRows::ownPowerSums(const Round &round) {
  ThreadBuilder t(builder, location);
  std::array<Value, kSumsBeside> sums, squares;
  for (auto [step, strip] : llvm::enumerate(strips)) {
    emitter.openScope();
    openPass(strip, step);
    for (auto [lane, half] :
         llvm::enumerate(emitter.elements(round.joint->momentsOf(), strip.places))) {
      Value element = t.toF32(half);
      Value &sum = sums[lane % kSumsBeside], &square = squares[lane % kSumsBeside];
      sum = sum ? t.addF(sum, element) : element;
      square = square ? t.fma(element, element, square) : t.mulF(element, element);
    }
    emitter.closeScope();
  }
  endPass();
  return {total(t, round.combiners[0], sums), total(t, round.combiners[0], squares)};
}

/// Where the next row takes the place of this one, two passes are 1 % faster (add and layer norm of
/// 262,144 on an H200); elsewhere one is (layer norm of 65,536: 1 %).
Accumulators StagedRows::reduceOwn(const Round &round) {
  bool isOnePass = round.joint && round.joint->momentsOf() && !isRefilled();
  return isOnePass ? ownMoments(round) : RowsFrame::reduceOwn(round);
}

Accumulators StagedRows::ownMoments(const Round &round) {
  ThreadBuilder t(builder, location);
  SmallVector<Value> sums(kSumsBeside), squares(kSumsBeside);
  Value middle;
  for (auto [step, strip] : llvm::enumerate(strips)) {
    emitter.openScope();
    openPass(strip, step);
    SmallVector<Value> elements =
        llvm::map_to_vector(emitter.elements(round.joint->momentsOf(), strip.places),
                            [&](Value element) { return t.toF32(element); });
    emitter.closeScope();
    if (step == 0) {
      middle = t.mulF(total(t, round.combiners[0], elements),
                      t.f32(1.0 / static_cast<double>(layout.lanes)));
    }
    for (auto [lane, element] : llvm::enumerate(elements)) {
      Value distance = t.subF(element, middle);
      Value &sum = sums[lane % kSumsBeside], &square = squares[lane % kSumsBeside];
      sum = sum ? t.addF(sum, distance) : distance;
      square = square ? t.fma(distance, distance, square) : t.mulF(distance, distance);
    }
  }
  endPass();
  double count = static_cast<double>(round.count);
  Value rest = total(t, round.combiners[0], sums), ofOne = t.f32(1 / count);
  Value moved = t.fma(t.negF(t.mulF(rest, ofOne)), rest, total(t, round.combiners[0], squares));
  // Of elements that are nearly the same rounding may leave less than nothing.
  Value least = arith::MaximumFOp::create(builder, location, moved, t.f32(0));
  return {t.fma(middle, t.f32(count), rest), least};
}

} // namespace tenon::codegen::cuda
