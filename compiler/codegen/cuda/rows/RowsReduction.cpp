// A block is a table of threads: along its width they take neighbouring results, along its height
// parts of the reduction, which meet in shared memory. Where that leaves the GPU empty, several
// blocks take parts too, which a second kernel combines. Relies on results having the reduction's
// other loops in order.
#include "compiler/codegen/cuda/rows/RowsReduction.h"

#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/rows/RowsReductionColumns.h"
#include "compiler/codegen/cuda/rows/RowsThreads.h"
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
  Accumulators sumParts(KernelFrame &kernel, ArrayRef<unsigned> from, const Accumulators &neutral,
                        const Index &column, const Index &first, int64_t height);
  SmallVector<Accumulators> reduceOwn(KernelFrame &kernel, ElementEmitter &emitter,
                                      const Accumulators &neutral, const Index &column, Value first,
                                      Value end);
  SmallVector<Accumulators> stepThread(KernelFrame &kernel, ElementEmitter &emitter,
                                       const Accumulators &neutral, const Index &column,
                                       Value number, Value end, SmallVector<Accumulators> carried);
  void store(KernelFrame &kernel, ElementEmitter &emitter, const Accumulators &result,
             const Index &number);

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
  SpreadFacts facts;
  facts.processors = region.gpu.cores;
  facts.isInnerReduced = llvm::is_contained(reducedLoops, inner);
  bool isLast = inner == (facts.isInnerReduced ? reducedLoops : keptLoops).back();
  if (isLast) {
    facts.multiple = tn::constantDim((facts.isInnerReduced ? reduced : kept).back()).value_or(1);
  }
  facts.elementBytes = byteSize(source.element);
  facts.results = region.estimate(kept);
  facts.steps = region.estimate(reduced);
  spread = spreadOut(facts);
}

/// One strip of the reduction for each result of the thread; `number` may lie beyond `end`.
SmallVector<Accumulators> ReductionKernels::stepThread(KernelFrame &kernel, ElementEmitter &emitter,
                                                       const Accumulators &neutral,
                                                       const Index &column, Value start, Value end,
                                                       SmallVector<Accumulators> carried) {
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  IndexMath &math = kernel.math;
  Indices keptSizes = kernel.sizes(kept), reducedSizes = kernel.sizes(reduced);
  Value last = math.value(math.add({end, 0, 1, false}, Index::constant(-1)));
  int64_t elements = spread.lanes * spread.steps;
  int64_t ahead = std::clamp<int64_t>(tuning::kElementsAhead / elements, 1, tuning::kMostAhead);
  SmallVector<Indices> places;
  SmallVector<Value> inside;
  for (int64_t i = 0; i < ahead; ++i) {
    Value number = math.value(math.add({start, 0, 1, true}, Index::constant(i * spread.height)));
    inside.push_back(
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::sle, number, last));
    Value clamped = arith::MinSIOp::create(builder, location, number, last);
    Index first = math.multiply({clamped, 0, 1, true}, Index::constant(spread.steps));
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
        places.push_back(std::move(place));
      }
    }
  }
  SmallVector<Accumulators> starts(places.size(), combiner.start(builder, location, neutral));
  SmallVector<SmallVector<Value>> values = emitter.steps(op, places, starts);
  for (int64_t lane = 0; lane < spread.lanes; ++lane) {
    SmallVector<Accumulators> parts(1, carried[lane]);
    for (int64_t i = 0; i < ahead; ++i) {
      SmallVector<Accumulators> strip;
      for (int64_t step = 0; step < spread.steps; ++step) {
        strip.push_back(Accumulators(values[(i * spread.steps + step) * spread.lanes + lane]));
      }
      Accumulators part = combiner.combine(builder, location, std::move(strip));
      for (auto [value, other] : llvm::zip(part, neutral)) {
        value = arith::SelectOp::create(builder, location, inside[i], value, other);
      }
      parts.push_back(std::move(part));
    }
    carried[lane] = combiner.combine(builder, location, std::move(parts));
  }
  return carried;
}

/// What a thread makes of its strips from `first` on.
SmallVector<Accumulators> ReductionKernels::reduceOwn(KernelFrame &kernel, ElementEmitter &emitter,
                                                      const Accumulators &neutral,
                                                      const Index &column, Value first, Value end) {
  OpBuilder &builder = kernel.builder;
  int64_t elements = spread.lanes * spread.steps;
  int64_t ahead = std::clamp<int64_t>(tuning::kElementsAhead / elements, 1, tuning::kMostAhead);
  SmallVector<Value> inits;
  for (int64_t lane = 0; lane < spread.lanes; ++lane) {
    llvm::append_range(inits, neutral);
  }
  size_t results = neutral.size();
  auto unflatten = [&](ValueRange flat) {
    SmallVector<Accumulators> values;
    for (int64_t lane = 0; lane < spread.lanes; ++lane) {
      values.push_back(Accumulators(flat.slice(lane * results, results)));
    }
    return values;
  };
  scf::ForOp loop = scf::ForOp::create(builder, kernel.location, first, end,
                                       kernel.math.constant(spread.height * ahead), inits);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  emitter.openScope();
  SmallVector<Accumulators> next =
      stepThread(kernel, emitter, neutral, column, loop.getInductionVar(), end,
                 unflatten(loop.getRegionIterArgs()));
  SmallVector<Value> yielded;
  for (const Accumulators &values : next) {
    llvm::append_range(yielded, values);
  }
  scf::YieldOp::create(builder, kernel.location, yielded);
  emitter.closeScope();
  return unflatten(loop.getResults());
}

/// The roots' elements number `number`, given the reduction's.
void ReductionKernels::store(KernelFrame &kernel, ElementEmitter &emitter,
                             const Accumulators &result, const Index &number) {
  for (auto [tensor, value] : llvm::zip(op->getResults(), result)) {
    emitter.hold(tensor, [value](ArrayRef<Index>) { return value; });
  }
  for (const Root &root : roots) {
    tn::Dims dims = region.dims(root.tensor);
    Indices place = kernel.math.delinearize(number, kernel.sizes(dims));
    kernel.store(root.buffer, emitter.element(root.tensor, place), number);
  }
}

bool ReductionKernels::emitParts() {
  KernelFrame kernel(region, spread.width * spread.height);
  ElementEmitter emitter(kernel);
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
  Value bound = math.value(kernel.size(strips));
  Value isInside =
      arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, math.value(strip), bound);
  Value lastStrip = math.value(math.add({bound, 0, 1, true}, Index::constant(-1)));
  Value clamped = arith::MinSIOp::create(builder, location, math.value(strip), lastStrip);
  Index column = math.multiply({clamped, 0, 1, true}, Index::constant(spread.lanes));

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
  SmallVector<Accumulators> own = reduceOwn(kernel, emitter, neutral, column, first, end);
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
  Value stores = arith::AndIOp::create(builder, location, isTop, isInside);
  scf::IfOp branch = scf::IfOp::create(builder, location, stores, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    emitter.openScope();
    for (int64_t lane = 0; lane < spread.lanes; ++lane) {
      Index number = math.add(column, Index::constant(lane));
      if (spread.parts == 1) {
        store(kernel, emitter, own[lane], number);
        continue;
      }
      Index place = math.add(math.multiply(part, kernel.size(resultCount)), number);
      for (auto [buffer, value] : llvm::zip(partials, own[lane])) {
        kernel.store(buffer, value, place);
      }
    }
    emitter.closeScope();
  }
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
  ElementEmitter emitter(kernel);
  IndexMath &math = kernel.math;
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  Index thread = kernel.thread();
  Index inWidth = math.mod(thread, Index::constant(table.width));
  Index inHeight = math.floorDiv(thread, Index::constant(table.width));
  Index number = math.add(math.multiply(kernel.block(), Index::constant(table.width)), inWidth);
  Value count = math.value(kernel.size(resultCount));
  Value isInside = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt,
                                         math.value(number), count);
  Value last = math.value(math.add({count, 0, 1, true}, Index::constant(-1)));
  Index column = {arith::MinSIOp::create(builder, location, math.value(number), last), 0, 1, true};
  Indices none(kept.size(), Index::constant(0));
  Accumulators neutral = emitter.initial(op, none);
  SmallVector<Accumulators> own = {sumParts(kernel, from, neutral, column, inHeight, table.height)};
  combineColumns(kernel, combiner, table, thread, own);
  Value isTop = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq,
                                      math.value(inHeight), math.constant(0));
  Value stores = arith::AndIOp::create(builder, location, isTop, isInside);
  scf::IfOp branch = scf::IfOp::create(builder, location, stores, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    emitter.openScope();
    store(kernel, emitter, own[0], column);
    emitter.closeScope();
  }
  kernel.finish(resultCount.ceilDiv(table.width));
  return !emitter.hasFailed();
}

/// Every `height`-th part of a result from `first` on.
Accumulators ReductionKernels::sumParts(KernelFrame &kernel, ArrayRef<unsigned> from,
                                        const Accumulators &neutral, const Index &column,
                                        const Index &first, int64_t height) {
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  IndexMath &math = kernel.math;
  int64_t ahead = std::min<int64_t>(tuning::kPartsAhead, llvm::divideCeil(spread.parts, height));
  scf::ForOp loop =
      scf::ForOp::create(builder, location, math.value(first), math.constant(spread.parts),
                         math.constant(height * ahead), neutral);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  math.openScope();
  SmallVector<Accumulators> parts = {Accumulators(loop.getRegionIterArgs())};
  Value last = math.constant(spread.parts - 1);
  for (int64_t i = 0; i < ahead; ++i) {
    Value part =
        math.value(math.add({loop.getInductionVar(), 0, 1, true}, Index::constant(i * height)));
    Value isInside =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::sle, part, last);
    Value clamped = arith::MinSIOp::create(builder, location, part, last);
    Index place = math.add(math.multiply({clamped, 0, 1, true}, kernel.size(resultCount)), column);
    Accumulators values;
    for (auto [buffer, other] : llvm::zip(from, neutral)) {
      Value value = kernel.load(buffer, other.getType(), place);
      values.push_back(arith::SelectOp::create(builder, location, isInside, value, other));
    }
    parts.push_back(std::move(values));
  }
  scf::YieldOp::create(builder, location, combiner.combine(builder, location, std::move(parts)));
  math.closeScope();
  return Accumulators(loop.getResults());
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
