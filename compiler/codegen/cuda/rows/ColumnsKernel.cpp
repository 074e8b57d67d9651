// The kernel of columns. Threads whose columns or elements lie beyond the last take the last ones,
// since all threads meet at barriers, and store nothing. Relies on the lanes dividing the innermost
// dim, and on width and height being powers of two.
#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/rows/CrossWarpReduction.h"
#include "compiler/codegen/cuda/rows/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

class ColumnsKernel {
public:
  ColumnsKernel(RegionBuilder &region, const RowsWork &work, const ColumnsLayout &layout)
      : kernel(region, layout.threads()), emitter(kernel), math(kernel.math),
        builder(kernel.builder), location(kernel.location), t(builder, location), work(work),
        layout(layout) {
    allDims = work.rows;
    allDims.append(work.inner);
    allDims.append(work.behind);
    columnDims = work.rows;
    columnDims.append(work.behind);
  }

  bool run();

private:
  /// One element of each of the thread's columns.
  struct Strip {
    SmallVector<Indices> places;
    SmallVector<Index> linears;
    Value isInside; ///< null if it is always part of the columns
  };

  void placeThread();
  /// The place of one of the thread's columns in a tensor without all elements.
  Indices columnPlace(int64_t lane, Value tensor);
  Strip stripAt(const Index &number, bool isAlwaysInside);
  SmallVector<Strip> strips(const Index &first, int64_t count);
  int64_t perStep() const { return layout.height * layout.blocks; }
  int64_t ahead() const {
    return std::clamp<int64_t>(tuning::kElementsAhead / layout.lanes, 1, tuning::kMostAhead);
  }

  /// What the thread's strips come to, for each of its columns, with what it has of them already.
  SmallVector<Accumulators> addStrips(linalg::GenericOp op, const Combiner &combiner,
                                      const Accumulators &neutral, ArrayRef<Strip> all,
                                      ArrayRef<Accumulators> before);
  SmallVector<Accumulators> reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                                      const Accumulators &neutral);
  void hold(linalg::GenericOp op, ArrayRef<Accumulators> values);
  /// From the thread's first element on; `body` gets the strips of a round and what is carried.
  using LoopBody = llvm::function_ref<SmallVector<Value>(ArrayRef<Strip>, ValueRange)>;
  ValueRange loopOverStrips(ValueRange inits, LoopBody body);
  void storeStrips(ArrayRef<Strip> all);
  void storeWide();
  void storeNarrow();

  KernelFrame kernel;
  ElementEmitter emitter;
  IndexMath &math;
  OpBuilder &builder;
  Location location;
  ThreadBuilder t;
  const RowsWork &work;
  ColumnsLayout layout;
  tn::Dims allDims, columnDims;

  Index inWidth, inHeight, rank;
  /// The thread's first column among all, its place (outer, then behind), and whether it has one.
  Index column;
  Indices outer, behind;
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
    Value bound = math.value(kernel.size(strips)), number = math.value(strip);
    isColumn = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, number, bound);
    Value last = math.value(math.add({bound, 0, 1, true}, Index::constant(-1)));
    strip = {arith::MinSIOp::create(builder, location, number, last), 0, 1, true};
  }
  column = math.multiply(strip, Index::constant(layout.lanes));
  Indices place = math.delinearize(column, kernel.sizes(columnDims));
  outer.assign(place.begin(), place.begin() + work.rows.size());
  behind.assign(place.begin() + work.rows.size(), place.end());
  length = kernel.size(tn::elementCount(context, work.inner));
  behindCount = kernel.size(tn::elementCount(context, work.behind));
}

ColumnsKernel::Strip ColumnsKernel::stripAt(const Index &number, bool isAlwaysInside) {
  Strip strip;
  Index inside = number;
  if (!isAlwaysInside) {
    Value at = math.value(number), last = math.value(math.add(length, Index::constant(-1)));
    strip.isInside = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::sle, at, last);
    inside = {arith::MinSIOp::create(builder, location, at, last), 0, 1, true};
  }
  Index outerNumber = math.linearize(outer, kernel.sizes(work.rows));
  Index row = math.add(math.multiply(outerNumber, length), inside);
  Index start =
      math.add(math.multiply(row, behindCount), math.linearize(behind, kernel.sizes(work.behind)));
  Indices inner = math.delinearize(inside, kernel.sizes(work.inner));
  for (int64_t lane = 0; lane < layout.lanes; ++lane) {
    Indices place = outer;
    place.append(inner);
    place.append(behind);
    place.back() = math.add(place.back(), Index::constant(lane));
    strip.linears.push_back(math.add(start, Index::constant(lane)));
    emitter.setLinear(allDims, place, strip.linears.back());
    strip.places.push_back(std::move(place));
  }
  return strip;
}

/// Elements `first`, and those that the thread has behind it.
SmallVector<ColumnsKernel::Strip> ColumnsKernel::strips(const Index &first, int64_t count) {
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

SmallVector<Accumulators> ColumnsKernel::addStrips(linalg::GenericOp op, const Combiner &combiner,
                                                   const Accumulators &neutral, ArrayRef<Strip> all,
                                                   ArrayRef<Accumulators> before) {
  SmallVector<Indices> places;
  for (const Strip &strip : all) {
    llvm::append_range(places, strip.places);
  }
  SmallVector<Accumulators> starts(places.size(), combiner.start(builder, location, neutral));
  SmallVector<SmallVector<Value>> values = emitter.steps(op, places, starts);
  SmallVector<Accumulators> own;
  for (int64_t lane = 0; lane < layout.lanes; ++lane) {
    SmallVector<Accumulators> parts;
    if (!before.empty()) {
      parts.push_back(before[lane]);
    }
    for (auto [i, strip] : llvm::enumerate(all)) {
      Accumulators part(values[i * layout.lanes + lane]);
      for (auto [value, other] : llvm::zip(part, neutral)) {
        value = strip.isInside ? t.select(strip.isInside, value, other) : value;
      }
      parts.push_back(std::move(part));
    }
    own.push_back(combiner.combine(builder, location, std::move(parts)));
  }
  return own;
}

ValueRange ColumnsKernel::loopOverStrips(ValueRange inits, LoopBody body) {
  Index first = math.add(math.multiply(rank, Index::constant(layout.height)), inHeight);
  scf::ForOp loop = scf::ForOp::create(builder, location, math.value(first), math.value(length),
                                       math.constant(perStep() * ahead()), inits);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  emitter.openScope();
  Index start{loop.getInductionVar(), 0, 1, true};
  SmallVector<Value> next = body(strips(start, ahead()), loop.getRegionIterArgs());
  if (!inits.empty()) {
    scf::YieldOp::create(builder, location, next);
  }
  emitter.closeScope();
  return loop.getResults();
}

SmallVector<Accumulators> ColumnsKernel::reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                                                   const Accumulators &neutral) {
  if (layout.steps > 0) {
    return addStrips(op, combiner, neutral, held, {});
  }
  size_t results = neutral.size();
  auto unflatten = [&](ValueRange flat) {
    SmallVector<Accumulators> values;
    for (int64_t lane = 0; lane < layout.lanes; ++lane) {
      values.push_back(Accumulators(flat.slice(lane * results, results)));
    }
    return values;
  };
  SmallVector<Value> inits;
  for (int64_t lane = 0; lane < layout.lanes; ++lane) {
    llvm::append_range(inits, neutral);
  }
  return unflatten(loopOverStrips(inits, [&](ArrayRef<Strip> all, ValueRange carried) {
    SmallVector<Value> next;
    for (const Accumulators &values : addStrips(op, combiner, neutral, all, unflatten(carried))) {
      llvm::append_range(next, values);
    }
    return next;
  }));
}

void ColumnsKernel::hold(linalg::GenericOp op, ArrayRef<Accumulators> values) {
  for (OpResult result : op->getResults()) {
    std::map<IndicesKey, Value> ofColumns;
    for (int64_t lane = 0; lane < layout.lanes; ++lane) {
      ofColumns[keyOf(columnPlace(lane, result))] = values[lane][result.getResultNumber()];
    }
    emitter.hold(result, [ofColumns](ArrayRef<Index> place) { return ofColumns.at(keyOf(place)); });
  }
}

Indices ColumnsKernel::columnPlace(int64_t lane, Value tensor) {
  Indices place = outer;
  size_t rank = kernel.region.dims(tensor).size();
  place.resize(rank - behind.size(), Index::constant(0));
  place.append(behind);
  place.back() = math.add(place.back(), Index::constant(lane));
  return place;
}

void ColumnsKernel::storeStrips(ArrayRef<Strip> all) {
  SmallVector<Indices> places;
  for (const Strip &strip : all) {
    llvm::append_range(places, strip.places);
  }
  SmallVector<SmallVector<Value>> values;
  for (const Root &root : work.wide) {
    values.push_back(emitter.elements(root.tensor, places));
  }
  emitter.when(isColumn, [&] {
    for (auto [i, strip] : llvm::enumerate(all)) {
      emitter.when(strip.isInside, [&] {
        for (auto [root, elements] : llvm::zip(work.wide, values)) {
          for (auto [lane, linear] : llvm::enumerate(strip.linears)) {
            kernel.store(root.buffer, elements[i * layout.lanes + lane], linear);
          }
        }
      });
    }
  });
}

void ColumnsKernel::storeWide() {
  if (work.wide.empty()) {
    return;
  }
  if (layout.steps > 0) {
    return storeStrips(held);
  }
  loopOverStrips(ValueRange(), [&](ArrayRef<Strip> all, ValueRange) {
    storeStrips(all);
    return SmallVector<Value>();
  });
}

/// By the threads at the top.
void ColumnsKernel::storeNarrow() {
  if (work.narrow.empty()) {
    return;
  }
  SmallVector<SmallVector<Value>> values;
  for (const Root &root : work.narrow) {
    SmallVector<Indices> places;
    for (int64_t lane = 0; lane < layout.lanes; ++lane) {
      places.push_back(columnPlace(lane, root.tensor));
    }
    values.push_back(emitter.elements(root.tensor, places));
  }
  Value first = math.value(math.add(math.multiply(rank, Index::constant(layout.height)), inHeight));
  Value isTop =
      arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, first, math.constant(0));
  emitter.when(isColumn, [&] {
    emitter.when(isTop, [&] {
      for (auto [root, elements] : llvm::zip(work.narrow, values)) {
        for (auto [lane, value] : llvm::enumerate(elements)) {
          kernel.store(root.buffer, value,
                       math.add(column, Index::constant(static_cast<int64_t>(lane))));
        }
      }
    });
  });
}

bool ColumnsKernel::run() {
  if (layout.blocks > 1) {
    kernel.setCluster(layout.blocks);
  }
  CrossWarpReduction reduction(kernel, layout);
  placeThread();
  if (layout.steps > 0) {
    Index first = math.add(math.multiply(rank, Index::constant(layout.height)), inHeight);
    held = strips(first, layout.steps);
  }
  Indices none(columnDims.size(), Index::constant(0));
  for (linalg::GenericOp op : work.reductions) {
    Combiner combiner = *Combiner::of(op);
    SmallVector<Accumulators> own = reduceOwn(op, combiner, emitter.initial(op, none));
    reduction.reduce(combiner, own);
    hold(op, own);
  }
  storeWide();
  storeNarrow();
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
