// The kernel for rows whose length varies or that no registers hold: a block goes over its row once
// for each reduction and once to store, with the second-level cache for what is read again.
#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/rows/Rows.h"
#include "compiler/codegen/cuda/rows/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

class LoopRows {
public:
  LoopRows(RegionBuilder &region, const RowsWork &work, unsigned threads)
      : kernel(region, threads), emitter(kernel), math(kernel.math), builder(kernel.builder),
        location(kernel.location), work(work), threads(threads) {}

  bool run();

private:
  /// What differs between rows of any length and those whose strips have several lanes.
  struct Shape {
    int64_t lanes;
    Index length, strips;
    Indices inner;
  };
  struct Strip {
    SmallVector<Indices> places;
    SmallVector<Index> linears;
    Value isInside;
  };

  void emitRow(const Shape &shape);
  void reduce(linalg::GenericOp op, const Shape &shape, ThreadCombiner &combiner);
  void storeWide(const Shape &shape);
  void storeNarrow();
  SmallVector<Strip> placeStrips(const Shape &shape, Value start);
  int64_t stripsAhead(const Shape &shape) const {
    return std::clamp<int64_t>(tuning::kElementsAhead / shape.lanes, 1, tuning::kMostAhead);
  }
  scf::ForOp loopOver(const Shape &shape, ValueRange carried);
  void branch(Value condition, bool hasElse, llvm::function_ref<void(bool)> body);

  KernelFrame kernel;
  ElementEmitter emitter;
  IndexMath &math;
  OpBuilder &builder;
  Location location;
  const RowsWork &work;
  int64_t threads;
  Index thread, row;
  Indices rowPlace;
};

void LoopRows::branch(Value condition, bool hasElse, llvm::function_ref<void(bool)> body) {
  scf::IfOp made = scf::IfOp::create(builder, location, condition, hasElse);
  for (bool holds : {true, false}) {
    if (!holds && !hasElse) {
      return;
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(holds ? made.thenBlock() : made.elseBlock());
    emitter.openScope();
    body(holds);
    emitter.closeScope();
  }
}

/// The strips of a thread in one step of a loop; beyond the row the last one is repeated.
SmallVector<LoopRows::Strip> LoopRows::placeStrips(const Shape &shape, Value start) {
  tn::Dims dims = work.rows;
  dims.append(work.inner);
  Index rowStart = math.multiply(row, shape.length);
  Value last = math.value(math.add(shape.strips, Index::constant(-1)));
  SmallVector<Strip> strips;
  for (int64_t ahead = 0; ahead < stripsAhead(shape); ++ahead) {
    Index own = math.add(thread, Index::constant(ahead * threads));
    Value number = math.value(math.add({start, 0, 1, true}, own));
    Strip strip;
    strip.isInside =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::sle, number, last);
    Value inside = arith::MinSIOp::create(builder, location, number, last);
    Index first = math.multiply({inside, 0, 1, true}, Index::constant(shape.lanes));
    for (int64_t lane = 0; lane < shape.lanes; ++lane) {
      Index position = math.add(first, Index::constant(lane));
      Indices at = rowPlace;
      at.append(math.delinearize(position, shape.inner));
      strip.linears.push_back(math.add(rowStart, position));
      emitter.setLinear(dims, at, strip.linears.back());
      strip.places.push_back(std::move(at));
    }
    strips.push_back(std::move(strip));
  }
  return strips;
}

scf::ForOp LoopRows::loopOver(const Shape &shape, ValueRange carried) {
  return scf::ForOp::create(builder, location, math.constant(0), math.value(shape.strips),
                            math.constant(threads * stripsAhead(shape)), carried);
}

void LoopRows::reduce(linalg::GenericOp op, const Shape &shape, ThreadCombiner &threadCombiner) {
  Combiner combiner = *Combiner::of(op);
  Accumulators neutral = emitter.initial(op, rowPlace);
  scf::ForOp loop = loopOver(shape, neutral);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    emitter.openScope();
    SmallVector<Strip> strips = placeStrips(shape, loop.getInductionVar());
    SmallVector<Indices> places;
    for (const Strip &strip : strips) {
      llvm::append_range(places, strip.places);
    }
    SmallVector<Accumulators> starts(places.size(), combiner.start(builder, location, neutral));
    SmallVector<SmallVector<Value>> results = emitter.steps(op, places, starts);
    SmallVector<Accumulators> parts(1, Accumulators(loop.getRegionIterArgs()));
    for (auto [i, strip] : llvm::enumerate(strips)) {
      ArrayRef<SmallVector<Value>> own = ArrayRef(results).slice(i * shape.lanes, shape.lanes);
      Accumulators part =
          combiner.combine(builder, location, SmallVector<Accumulators>(own.begin(), own.end()));
      for (auto [value, other] : llvm::zip(part, neutral)) {
        value = arith::SelectOp::create(builder, location, strip.isInside, value, other);
      }
      parts.push_back(std::move(part));
    }
    scf::YieldOp::create(builder, location, combiner.combine(builder, location, std::move(parts)));
    emitter.closeScope();
  }
  Accumulators all = threadCombiner.combine(combiner, Accumulators(loop.getResults()), neutral);
  for (auto [result, value] : llvm::zip(op->getResults(), all)) {
    emitter.hold(result, [value](ArrayRef<Index>) { return value; });
  }
}

void LoopRows::storeWide(const Shape &shape) {
  scf::ForOp loop = loopOver(shape, ValueRange());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  emitter.openScope();
  SmallVector<Strip> strips = placeStrips(shape, loop.getInductionVar());
  SmallVector<Indices> places;
  for (const Strip &strip : strips) {
    llvm::append_range(places, strip.places);
  }
  SmallVector<SmallVector<Value>> values;
  for (const Root &root : work.wide) {
    values.push_back(emitter.elements(root.tensor, places));
  }
  for (auto [i, strip] : llvm::enumerate(strips)) {
    branch(strip.isInside, /*hasElse=*/false, [&](bool) {
      for (auto [root, elements] : llvm::zip(work.wide, values)) {
        for (int64_t lane = 0; lane < shape.lanes; ++lane) {
          kernel.store(root.buffer, elements[i * shape.lanes + lane], strip.linears[lane]);
        }
      }
    });
  }
  emitter.closeScope();
}

void LoopRows::storeNarrow() {
  SmallVector<Value> values;
  for (const Root &root : work.narrow) {
    Indices at = rowPlace;
    at.resize(kernel.region.dims(root.tensor).size(), Index::constant(0));
    values.push_back(emitter.element(root.tensor, at));
  }
  Value isFirst = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq,
                                        math.value(thread), math.constant(0));
  branch(isFirst, /*hasElse=*/false, [&](bool) {
    for (auto [root, value] : llvm::zip(work.narrow, values)) {
      kernel.store(root.buffer, value, row);
    }
  });
}

void LoopRows::emitRow(const Shape &shape) {
  RowThreads rowThreads;
  rowThreads.perRow = threads;
  ThreadCombiner combiner(kernel, rowThreads, math.value(thread));
  for (linalg::GenericOp op : work.reductions) {
    reduce(op, shape, combiner);
  }
  if (!work.wide.empty()) {
    storeWide(shape);
  }
  if (!work.narrow.empty()) {
    storeNarrow();
  }
}

bool LoopRows::run() {
  thread = kernel.thread();
  row = kernel.block();
  rowPlace = math.delinearize(row, kernel.sizes(work.rows));
  Indices inner = kernel.sizes(work.inner);
  Index length = kernel.size(tn::elementCount(builder.getContext(), work.inner));
  int64_t known = length.commonDivisor();
  auto shapeOf = [&](int64_t lanes, const Index &whole) {
    return Shape{lanes, whole, math.floorDiv(whole, Index::constant(lanes)), inner};
  };
  dispatch::RowFacts facts = factsOf(kernel.region, work);
  int64_t widest = lanesOf(facts, 0), lanes = lanesOf(facts, known);
  if (lanes == widest || work.inner.size() != 1) {
    emitRow(shapeOf(lanes, length));
  } else {
    // Rows of most lengths allow wide accesses; only the kernel's arguments tell.
    Index rest = math.mod(length, Index::constant(widest));
    Value isWide = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq,
                                         math.value(rest), math.constant(0));
    branch(isWide, /*hasElse=*/true, [&](bool holds) {
      Index whole{math.value(length), 0, widest, true};
      emitRow(holds ? shapeOf(widest, whole) : shapeOf(lanes, length));
    });
  }
  kernel.finish(tn::elementCount(builder.getContext(), work.rows));
  return !emitter.hasFailed();
}

} // namespace

void emitRowsInLoops(RegionBuilder &region, const RowsWork &work, bool &hasFailed) {
  int64_t length = region.estimate(work.inner);
  unsigned threads = length > tuning::kLongRow ? tuning::kLongLoopThreads : tuning::kLoopThreads;
  hasFailed |= !LoopRows(region, work, threads).run();
}

} // namespace tenon::codegen::cuda
