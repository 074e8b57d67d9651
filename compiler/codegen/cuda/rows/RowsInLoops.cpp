// The kernel for rows whose length varies or that no registers hold: a block goes over its row once
// for each reduction and once to store, with the second-level cache for what is read again.
#include "compiler/codegen/cuda/rows/Rows.h"
#include "compiler/codegen/cuda/rows/StripEmitter.h"
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
  };

  void emitRow(const Shape &shape);
  void reduce(linalg::GenericOp op, const Shape &shape, ThreadCombiner &combiner);
  void storeWide(const Shape &shape);
  SmallVector<Strip> placeStrips(const Shape &shape, const Index &start);
  SmallVector<Accumulators> loop(const Shape &shape, ArrayRef<Accumulators> inits,
                                 StripEmitter::LoopBody body);
  void branch(Value condition, bool hasElse, llvm::function_ref<void(bool)> body);

  KernelFrame kernel;
  StripEmitter emitter;
  IndexMath &math;
  OpBuilder &builder;
  Location location;
  const RowsWork &work;
  int64_t threads;
  Index thread, row;
  RowPlace rowPlace;
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

/// The strips of a thread in one step of a loop.
SmallVector<Strip> LoopRows::placeStrips(const Shape &shape, const Index &start) {
  Index rowStart = math.multiply(row, shape.length);
  SmallVector<Strip> strips;
  for (int64_t ahead = 0; ahead < stripsAhead(shape.lanes); ++ahead) {
    Index number = math.add(start, math.add(thread, Index::constant(ahead * threads)));
    Value isInside;
    Index inside = emitter.atMost(number, shape.strips, isInside);
    Index first = math.multiply(inside, Index::constant(shape.lanes));
    strips.push_back(emitter.strip(work, rowPlace, first, math.add(rowStart, first), shape.lanes));
    strips.back().isInside = isInside;
  }
  return strips;
}

SmallVector<Accumulators> LoopRows::loop(const Shape &shape, ArrayRef<Accumulators> inits,
                                         StripEmitter::LoopBody body) {
  return emitter.loop(math.constant(0), math.value(shape.strips),
                      threads * stripsAhead(shape.lanes), inits, body);
}

void LoopRows::reduce(linalg::GenericOp op, const Shape &shape, ThreadCombiner &threadCombiner) {
  Combiner combiner = *Combiner::of(op);
  Accumulators neutral = emitter.initial(op, rowPlace.outer);
  SmallVector<Accumulators> own =
      loop(shape, neutral, [&](const Index &start, ArrayRef<Accumulators> carried) {
        return emitter.reduceStrips(op, combiner, neutral, placeStrips(shape, start), 1, carried);
      });
  emitter.hold(op, threadCombiner.combine(combiner, own[0], neutral));
}

void LoopRows::storeWide(const Shape &shape) {
  loop(shape, {}, [&](const Index &start, ArrayRef<Accumulators>) {
    emitter.storeStrips(work.wide, placeStrips(shape, start), Value());
    return SmallVector<Accumulators>();
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
  emitter.storeNarrow(work.narrow, 1, row, rowPlace, Value(), thread);
}

bool LoopRows::run() {
  thread = kernel.thread();
  row = kernel.block();
  rowPlace.outer = math.delinearize(row, kernel.sizes(work.rows));
  Index length = kernel.size(tn::elementCount(builder.getContext(), work.inner));
  int64_t known = length.commonDivisor();
  auto shapeOf = [&](int64_t lanes, const Index &whole) {
    return Shape{lanes, whole, math.floorDiv(whole, Index::constant(lanes))};
  };
  dispatch::RowInfo info = infoOf(kernel.region, work);
  int64_t widest = lanesOf(info, 0), lanes = lanesOf(info, known);
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
