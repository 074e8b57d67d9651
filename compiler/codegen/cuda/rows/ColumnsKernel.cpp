// The kernel of columns. Threads whose columns or elements lie beyond the last take the last ones,
// since all threads meet at barriers, and store nothing. Relies on the lanes dividing the innermost
// dim, and on width and height being powers of two.
#include "compiler/codegen/cuda/rows/CrossWarpReduction.h"
#include "compiler/codegen/cuda/rows/StripEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

class ColumnsKernel {
public:
  ColumnsKernel(RegionBuilder &region, const RowsWork &work, const ColumnsLayout &layout)
      : kernel(region, layout.threads()), emitter(kernel), math(kernel.math),
        builder(kernel.builder), location(kernel.location), work(work), layout(layout) {
    columnDims = work.rows;
    columnDims.append(work.columns());
  }

  bool run();

private:
  void placeThread();
  /// One element of each of the thread's columns.
  Strip stripAt(const Index &number, bool isAlwaysInside);
  SmallVector<Strip> strips(const Index &first, int64_t count);
  int64_t perStep() const { return layout.height * layout.blocks; }
  /// Of the thread, among all that take elements of its columns; and its first element.
  Index threadInColumn() {
    return math.add(math.multiply(rank, Index::constant(layout.height)), inHeight);
  }

  /// What the thread's strips come to, for each of its columns.
  SmallVector<Accumulators> reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                                      const Accumulators &neutral);
  void reduceAll(ArrayRef<linalg::GenericOp> reductions, CrossWarpReduction &reduction);
  void hold(linalg::GenericOp op, ArrayRef<Accumulators> values);
  SmallVector<Accumulators> loop(ArrayRef<Accumulators> inits, StripEmitter::LoopBody body);
  void storeWide();

  KernelFrame kernel;
  StripEmitter emitter;
  IndexMath &math;
  OpBuilder &builder;
  Location location;
  const RowsWork &work;
  ColumnsLayout layout;
  tn::Dims columnDims;

  Index inWidth, inHeight, rank;
  /// The thread's first column among all, its place, and whether it has one.
  Index column;
  RowPlace columnPlace;
  Value isColumn;
  Index length, behindCount;
  /// Of constant length, in registers.
  SmallVector<Strip> held;
};

void ColumnsKernel::placeThread() {
  Index thread = kernel.thread(), group = kernel.block();
  inWidth = math.mod(thread, Index::constant(layout.width));
  inHeight = math.floorDiv(thread, Index::constant(layout.width));
  rank = Index::constant(0);
  if (layout.blocks > 1) {
    rank = math.mod(group, Index::constant(layout.blocks));
    group = math.floorDiv(group, Index::constant(layout.blocks));
  }
  MLIRContext *context = builder.getContext();
  AffineExpr strips = tn::elementCount(context, columnDims).floorDiv(layout.lanes);
  Index strip = math.add(math.multiply(group, Index::constant(layout.width)), inWidth);
  std::optional<int64_t> known = tn::constantDim(strips);
  if (!known || *known % layout.width != 0) {
    strip = emitter.atMost(strip, kernel.size(strips), isColumn, arith::CmpIPredicate::slt);
  }
  column = math.multiply(strip, Index::constant(layout.lanes));
  bool hasWholeGroups = !work.within.empty() && layout.beside() == 1;
  ArrayRef<AffineExpr> dims = ArrayRef(columnDims).drop_back(hasWholeGroups ? 1 : 0);
  Indices place = math.delinearize(
      hasWholeGroups ? math.multiply(strip, Index::constant(layout.parts())) : column,
      kernel.sizes(dims));
  if (hasWholeGroups) {
    place.push_back(Index::constant(0));
    columnPlace.group = layout.group;
  }
  ArrayRef<Index> all(place);
  columnPlace.outer.assign(all.take_front(work.rows.size()));
  columnPlace.within.assign(all.take_back(work.within.size()));
  columnPlace.behind.assign(all.drop_front(work.rows.size()).drop_back(work.within.size()));
  length = kernel.size(tn::elementCount(context, work.inner));
  behindCount = kernel.size(tn::elementCount(context, work.columns()));
}

Strip ColumnsKernel::stripAt(const Index &number, bool isAlwaysInside) {
  Value isInside;
  Index inside = isAlwaysInside ? number : emitter.atMost(number, length, isInside);
  Index outer = math.linearize(columnPlace.outer, kernel.sizes(work.rows));
  Index row = math.add(math.multiply(outer, length), inside);
  Indices among = columnPlace.behind;
  among.append(columnPlace.within);
  Index start = math.add(math.multiply(row, behindCount),
                         math.linearize(among, kernel.sizes(work.columns())));
  Strip strip = emitter.strip(work, columnPlace, inside, start, layout.lanes);
  strip.isInside = isInside;
  return strip;
}

/// Elements `first`, and those that the thread has behind it.
SmallVector<Strip> ColumnsKernel::strips(const Index &first, int64_t count) {
  std::optional<int64_t> known;
  if (layout.steps > 0) {
    known = tn::constantDim(tn::elementCount(builder.getContext(), work.inner));
  }
  SmallVector<Strip> all;
  for (int64_t step = 0; step < count; ++step) {
    bool isInside = known && (step + 1) * perStep() <= *known;
    all.push_back(stripAt(math.add(first, Index::constant(step * perStep())), isInside));
  }
  return all;
}

SmallVector<Accumulators> ColumnsKernel::loop(ArrayRef<Accumulators> inits,
                                              StripEmitter::LoopBody body) {
  return emitter.loop(math.value(threadInColumn()), math.value(length),
                      perStep() * stripsAhead(layout.lanes), inits, body);
}

SmallVector<Accumulators> ColumnsKernel::reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                                                   const Accumulators &neutral) {
  if (layout.steps > 0) {
    return emitter.reduceStrips(op, combiner, neutral, held, layout.lanes);
  }
  SmallVector<Accumulators> inits(layout.lanes, neutral);
  return loop(inits, [&](const Index &first, ArrayRef<Accumulators> carried) {
    return emitter.reduceStrips(op, combiner, neutral, strips(first, stripsAhead(layout.lanes)),
                                layout.lanes, carried);
  });
}

void ColumnsKernel::hold(linalg::GenericOp op, ArrayRef<Accumulators> values) {
  for (OpResult result : op->getResults()) {
    std::map<IndicesKey, Value> ofColumns;
    int64_t lanes = layout.lanes / layout.parts();
    for (int64_t lane = 0; lane < layout.lanes; ++lane) {
      ofColumns[keyOf(emitter.narrowPlace(result, columnPlace, lane))] =
          values[lane / lanes][result.getResultNumber()];
    }
    emitter.hold(result, [ofColumns](ArrayRef<Index> place) { return ofColumns.at(keyOf(place)); });
  }
}

void ColumnsKernel::reduceAll(ArrayRef<linalg::GenericOp> reductions,
                              CrossWarpReduction &reduction) {
  Indices none(columnDims.size(), Index::constant(0));
  SmallVector<CrossWarpReduction::Part> parts;
  for (linalg::GenericOp op : reductions) {
    Combiner combiner = *Combiner::of(op);
    SmallVector<Accumulators> ofLanes = reduceOwn(op, combiner, emitter.initial(op, none)), own;
    ArrayRef<Accumulators> left(ofLanes);
    for (int64_t lanes = layout.lanes / layout.parts(); !left.empty();
         left = left.drop_front(lanes)) {
      own.push_back(
          combiner.combine(builder, location, SmallVector<Accumulators>(left.take_front(lanes))));
    }
    parts.push_back({combiner, std::move(own)});
  }
  reduction.reduce(parts);
  for (auto [op, part] : llvm::zip(reductions, parts)) {
    hold(op, part.own);
  }
}

void ColumnsKernel::storeWide() {
  if (layout.steps > 0) {
    return emitter.storeStrips(work.wide, held, isColumn);
  }
  if (work.wide.empty()) {
    return;
  }
  loop({}, [&](const Index &first, ArrayRef<Accumulators>) {
    emitter.storeStrips(work.wide, strips(first, stripsAhead(layout.lanes)), isColumn);
    return SmallVector<Accumulators>();
  });
}

bool ColumnsKernel::run() {
  if (layout.blocks > 1) {
    kernel.setCluster(layout.blocks);
  }
  CrossWarpReduction reduction(kernel, layout);
  placeThread();
  if (layout.steps > 0) {
    held = strips(threadInColumn(), layout.steps);
  }
  ArrayRef<linalg::GenericOp> left(work.reductions);
  while (!left.empty()) {
    size_t count = countOfIndependent(left);
    reduceAll(left.take_front(count), reduction);
    left = left.drop_front(count);
  }
  storeWide();
  // By the threads at the top.
  emitter.storeNarrow(work.narrow, layout.lanes, column, columnPlace, isColumn, threadInColumn());
  AffineExpr strips = tn::elementCount(builder.getContext(), columnDims).floorDiv(layout.lanes);
  kernel.finish(strips.ceilDiv(layout.width) * layout.blocks);
  return !emitter.hasFailed();
}

} // namespace

void emitColumns(RegionBuilder &region, const RowsWork &work, const ColumnsLayout &layout,
                 bool &hasFailed) {
  hasFailed |= !ColumnsKernel(region, work, layout).run();
}

} // namespace tenon::codegen::cuda
