// A block is a table of threads: along its width they take neighbouring results, along its height
// parts of the reduction, which meet in shared memory. Where that leaves the GPU empty, several
// blocks take parts too, which a second kernel combines. Relies on results having the reduction's
// other loops in order.
#include "compiler/codegen/cuda/rows/RowsReduction.h"

#include "compiler/codegen/cuda/rows/RowsReductionColumns.h"
#include "compiler/codegen/cuda/rows/RowsThreads.h"
#include "compiler/codegen/cuda/rows/StripEmitter.h"
#include "compiler/codegen/cuda/rows/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

class ReductionKernels {
public:
  ReductionKernels(RegionBuilder &region, ArrayRef<Root> roots, linalg::GenericOp op)
      : region(region), roots(roots), op(op), combiner(*Combiner::of(op)) {
    tn::Dims sizes = region.loopSizes(op);
    for (auto [i, iterator] : llvm::enumerate(op.getIteratorTypesArray())) {
      bool isKept = iterator == utils::IteratorType::parallel;
      (isKept ? keptLoops : reducedLoops).push_back(i);
      (isKept ? kept : reduced).push_back(sizes[i]);
    }
    MLIRContext *context = op.getContext();
    resultCount = tn::elementCount(context, kept);
    stepCount = tn::elementCount(context, reduced);
  }

  bool isWorthIt();
  bool run();

private:
  void choose();
  bool emitParts();
  bool emitSum(ArrayRef<unsigned> partials);
  Accumulators sumParts(StripEmitter &emitter, ArrayRef<unsigned> from, const Accumulators &neutral,
                        const Index &column, const Index &first, int64_t height);
  SmallVector<Accumulators> reduceOwn(StripEmitter &emitter, const Accumulators &neutral,
                                      const Index &column, Value first, Value end);
  SmallVector<Strip> strips(StripEmitter &emitter, const Index &column, const Index &start,
                            const Index &end);
  int64_t ahead() const { return stripsAhead(spread.lanes * spread.steps); }
  void store(StripEmitter &emitter, const Accumulators &result, const Index &number);

  RegionBuilder &region;
  ArrayRef<Root> roots;
  linalg::GenericOp op;
  Combiner combiner;
  SmallVector<unsigned> keptLoops, reducedLoops;
  tn::Dims kept, reduced;
  AffineExpr resultCount, stepCount;
  Spread spread;
  SmallVector<unsigned> partials;
};

bool ReductionKernels::isWorthIt() {
  int64_t results = region.estimate(kept), steps = region.estimate(reduced);
  if (steps < tuning::kShortReduction || results == 0) {
    return false;
  }
  choose();
  return results / spread.lanes < tuning::kEnoughThreads || steps >= kSpreadThreads;
}

void ReductionKernels::choose() {
  WholeSource source = *wholeSource(region, op);
  unsigned inner = source.innerLoop;
  SpreadInfo info;
  info.processors = region.gpu.cores;
  info.isInnerReduced = llvm::is_contained(reducedLoops, inner);
  bool isLast = inner == (info.isInnerReduced ? reducedLoops : keptLoops).back();
  if (isLast) {
    info.multiple = tn::constantDim((info.isInnerReduced ? reduced : kept).back()).value_or(1);
  }
  info.elementBytes = byteSize(source.element);
  info.results = region.estimate(kept);
  info.steps = region.estimate(reduced);
  spread = spreadOut(info);
}

/// The next steps of a thread, for each of its results; `start` may lie beyond `end`.
SmallVector<Strip> ReductionKernels::strips(StripEmitter &emitter, const Index &column,
                                            const Index &start, const Index &end) {
  IndexMath &math = emitter.math;
  Indices keptSizes = emitter.kernel.sizes(kept), reducedSizes = emitter.kernel.sizes(reduced);
  SmallVector<Strip> all(ahead());
  for (auto [i, strip] : llvm::enumerate(all)) {
    Index number = math.add(start, Index::constant(static_cast<int64_t>(i) * spread.height));
    Index inside = emitter.atMost(number, end, strip.isInside);
    Index first = math.multiply(inside, Index::constant(spread.steps));
    for (int64_t step = 0; step < spread.steps; ++step) {
      Indices reducedPlace = math.delinearize(math.add(first, Index::constant(step)), reducedSizes);
      for (int64_t lane = 0; lane < spread.lanes; ++lane) {
        Indices keptPlace = math.delinearize(math.add(column, Index::constant(lane)), keptSizes);
        Indices place(op.getNumLoops(), Index::constant(0));
        for (auto [loop, index] : llvm::zip(keptLoops, keptPlace)) {
          place[loop] = index;
        }
        for (auto [loop, index] : llvm::zip(reducedLoops, reducedPlace)) {
          place[loop] = index;
        }
        strip.places.push_back(std::move(place));
      }
    }
  }
  return all;
}

/// What a thread makes of its strips from `first` on.
SmallVector<Accumulators> ReductionKernels::reduceOwn(StripEmitter &emitter,
                                                      const Accumulators &neutral,
                                                      const Index &column, Value first, Value end) {
  SmallVector<Accumulators> inits(spread.lanes, neutral);
  return emitter.loop(first, end, spread.height * ahead(), inits,
                      [&](const Index &start, ArrayRef<Accumulators> carried) {
                        return emitter.reduceStrips(op, combiner, neutral,
                                                    strips(emitter, column, start, {end, 0, 1}),
                                                    spread.lanes, carried);
                      });
}

/// The roots' elements number `number`, given the reduction's.
void ReductionKernels::store(StripEmitter &emitter, const Accumulators &result,
                             const Index &number) {
  KernelFrame &kernel = emitter.kernel;
  emitter.hold(op, result);
  for (const Root &root : roots) {
    tn::Dims dims = region.dims(root.tensor);
    Indices place = kernel.math.delinearize(number, kernel.sizes(dims));
    kernel.store(root.buffer, emitter.element(root.tensor, place), number);
  }
}

bool ReductionKernels::emitParts() {
  KernelFrame kernel(region, spread.width * spread.height);
  StripEmitter emitter(kernel);
  IndexMath &math = kernel.math;
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  Index thread = kernel.thread(), block = kernel.block();
  Index part = math.mod(block, Index::constant(spread.parts));
  Index group = math.floorDiv(block, Index::constant(spread.parts));
  Index inWidth = math.mod(thread, Index::constant(spread.width));
  Index inHeight = math.floorDiv(thread, Index::constant(spread.width));

  // Strips of results; threads beyond the last repeat it and store nothing.
  AffineExpr strips = resultCount.floorDiv(spread.lanes);
  Index strip = math.add(math.multiply(group, Index::constant(spread.width)), inWidth);
  Value isInside;
  strip = emitter.atMost(strip, kernel.size(strips), isInside, arith::CmpIPredicate::slt);
  Index column = math.multiply(strip, Index::constant(spread.lanes));

  // This block's part of the reduction.
  AffineExpr all = stepCount.floorDiv(spread.steps);
  AffineExpr share = all.ceilDiv(spread.parts);
  Index begin = math.multiply(part, kernel.size(share));
  Value end =
      arith::MinSIOp::create(builder, location, math.value(math.add(begin, kernel.size(share))),
                             math.value(kernel.size(all)));
  Value first = math.value(math.add(begin, inHeight));

  Indices none(kept.size(), Index::constant(0));
  Accumulators neutral = emitter.initial(op, none);
  SmallVector<Accumulators> own = reduceOwn(emitter, neutral, column, first, end);
  if (spread.width == 1 && spread.lanes == 1) {
    RowThreads threads;
    threads.perRow = spread.height;
    ThreadCombiner combinerOfThreads(kernel, threads, math.value(thread));
    own[0] = combinerOfThreads.combine(combiner, own[0], neutral);
  } else {
    combineColumns(kernel, combiner, spread, thread, own);
  }
  Value isTop = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq,
                                      math.value(inHeight), math.constant(0));
  emitter.when(arith::AndIOp::create(builder, location, isTop, isInside), [&] {
    for (int64_t lane = 0; lane < spread.lanes; ++lane) {
      Index number = math.add(column, Index::constant(lane));
      if (spread.parts == 1) {
        store(emitter, own[lane], number);
        continue;
      }
      Index place = math.add(math.multiply(part, kernel.size(resultCount)), number);
      for (auto [buffer, value] : llvm::zip(partials, own[lane])) {
        kernel.store(buffer, value, place);
      }
    }
  });
  kernel.finish(strips.ceilDiv(spread.width) * spread.parts);
  return !emitter.hasFailed();
}

/// Columns of parts, or few of them: the threads of a warp read neighbouring results, those above
/// each other different parts.
bool ReductionKernels::emitSum(ArrayRef<unsigned> from) {
  Spread table;
  table.width = std::min<int64_t>(kWarp, llvm::PowerOf2Ceil(region.estimate(kept)));
  table.height = std::clamp<int64_t>(llvm::PowerOf2Ceil(spread.parts), kWarp / table.width,
                                     kSpreadThreads / table.width);
  KernelFrame kernel(region, table.width * table.height);
  StripEmitter emitter(kernel);
  IndexMath &math = kernel.math;
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  Index thread = kernel.thread();
  Index inWidth = math.mod(thread, Index::constant(table.width));
  Index inHeight = math.floorDiv(thread, Index::constant(table.width));
  Index number = math.add(math.multiply(kernel.block(), Index::constant(table.width)), inWidth);
  Value isInside;
  Index column =
      emitter.atMost(number, kernel.size(resultCount), isInside, arith::CmpIPredicate::slt);
  Indices none(kept.size(), Index::constant(0));
  Accumulators neutral = emitter.initial(op, none);
  SmallVector<Accumulators> own = {
      sumParts(emitter, from, neutral, column, inHeight, table.height)};
  combineColumns(kernel, combiner, table, thread, own);
  Value isTop = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq,
                                      math.value(inHeight), math.constant(0));
  emitter.when(arith::AndIOp::create(builder, location, isTop, isInside),
               [&] { store(emitter, own[0], column); });
  kernel.finish(resultCount.ceilDiv(table.width));
  return !emitter.hasFailed();
}

/// Every `height`-th part of a result from `first` on.
Accumulators ReductionKernels::sumParts(StripEmitter &emitter, ArrayRef<unsigned> from,
                                        const Accumulators &neutral, const Index &column,
                                        const Index &first, int64_t height) {
  KernelFrame &kernel = emitter.kernel;
  IndexMath &math = kernel.math;
  OpBuilder &builder = kernel.builder;
  int64_t ahead = std::min<int64_t>(tuning::kPartsAhead, llvm::divideCeil(spread.parts, height));
  auto addParts = [&](const Index &start, ArrayRef<Accumulators> carried) {
    SmallVector<Accumulators> parts(carried);
    for (int64_t i = 0; i < ahead; ++i) {
      Value isInside;
      Index part = emitter.atMost(math.add(start, Index::constant(i * height)),
                                  Index::constant(spread.parts), isInside);
      Index place = math.add(math.multiply(part, kernel.size(resultCount)), column);
      Accumulators values;
      for (auto [buffer, other] : llvm::zip(from, neutral)) {
        Value value = kernel.load(buffer, other.getType(), place);
        values.push_back(arith::SelectOp::create(builder, kernel.location, isInside, value, other));
      }
      parts.push_back(std::move(values));
    }
    return SmallVector<Accumulators>{combiner.combine(builder, kernel.location, std::move(parts))};
  };
  return emitter.loop(math.value(first), math.constant(spread.parts), height * ahead, neutral,
                      addParts)[0];
}

bool ReductionKernels::run() {
  if (spread.parts == 1) {
    return emitParts();
  }
  for (Value output : op.getDpsInits()) {
    int64_t bytes = byteSize(getElementTypeOrSelf(output));
    partials.push_back(region.addTemporary(resultCount * (bytes * spread.parts)));
  }
  return emitParts() && emitSum(partials);
}

} // namespace

bool isSharedReduction(RegionBuilder &region, ArrayRef<Root> roots) {
  linalg::GenericOp op = findReduction(region, roots);
  return op && ReductionKernels(region, roots, op).isWorthIt();
}

bool emitReductionKernels(RegionBuilder &region, const KernelRoots &group, bool &hasFailed) {
  if (group.nest) {
    return false;
  }
  linalg::GenericOp op = findReduction(region, group.roots);
  if (!op) {
    return false;
  }
  ReductionKernels kernels(region, group.roots, op);
  if (!kernels.isWorthIt()) {
    return false;
  }
  hasFailed |= !kernels.run();
  return true;
}

} // namespace tenon::codegen::cuda
