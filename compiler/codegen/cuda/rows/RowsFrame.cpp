// Relies on a cluster's blocks standing side by side in the grid.
#include "compiler/codegen/cuda/rows/RowsFrame.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {

RowsFrame::RowsFrame(RegionBuilder &region, const RowsWork &work, const RowReductionConfig &layout)
    : kernel(region, layout.blockThreads()), emitter(kernel), math(kernel.math),
      builder(kernel.builder), location(kernel.location), work(work), layout(layout) {
  int64_t blocks = layout.threads.blocks, perRow = layout.threads.perRow;
  if (blocks > 1) {
    kernel.setCluster(blocks);
  }
  thread = kernel.thread();
  firstGroup = kernel.block();
  inRow = thread;
  if (blocks > 1) {
    Index rank = math.mod(firstGroup, Index::constant(blocks));
    inRow = math.add(math.multiply(rank, Index::constant(perRow)), thread);
    firstGroup = math.floorDiv(firstGroup, Index::constant(blocks));
  } else if (layout.rowsPerBlock > 1) {
    inRow = math.mod(thread, Index::constant(perRow));
  }
}

AffineExpr RowsFrame::groupCount() {
  return tn::elementCount(builder.getContext(), work.rows).ceilDiv(layout.rowsPerBlock);
}

Index RowsFrame::rowIn(const Index &group, Value &isRow) {
  isRow = {};
  if (layout.rowsPerBlock == 1) {
    return group;
  }
  Index result = math.add(math.multiply(group, Index::constant(layout.rowsPerBlock)),
                          math.floorDiv(thread, Index::constant(layout.threads.perRow)));
  AffineExpr rows = tn::elementCount(builder.getContext(), work.rows);
  std::optional<int64_t> count = tn::constantDim(rows);
  if (count && *count % layout.rowsPerBlock == 0) {
    return result;
  }
  return emitter.atMost(result, kernel.size(rows), isRow, arith::CmpIPredicate::ult);
}

Index RowsFrame::stripNumber(int64_t step, Value &isInside) {
  int64_t threads = layout.threadsOfRow();
  Index number = math.add(inRow, Index::constant(step * threads));
  isInside = {};
  if ((step + 1) * threads <= layout.strips) {
    return number;
  }
  return emitter.atMost(number, Index::constant(layout.strips), isInside,
                        arith::CmpIPredicate::ult);
}

void RowsFrame::placeIn(const Index &group) {
  row = rowIn(group, isRow);
  rowPlace.outer = math.delinearize(row, kernel.sizes(work.rows));
  Index rowStart = math.multiply(row, Index::constant(layout.strips * layout.lanes));
  strips.clear();
  for (int64_t step = 0; step < layout.steps; ++step) {
    Value isInside;
    Index first = math.multiply(stripNumber(step, isInside), Index::constant(layout.lanes));
    strips.push_back(emitter.strip(work, rowPlace, first, math.add(rowStart, first), layout.lanes));
    strips.back().isInside = isInside;
  }
}

void RowsFrame::returnTo(const Place &place) {
  row = place.row;
  isRow = place.isRow;
  rowPlace = place.rowPlace;
  strips = place.strips;
}

std::optional<ThreadCombiner::Round> RowsFrame::onlyRound() {
  int64_t own = layout.steps * layout.lanes, length = own * layout.threadsOfRow();
  bool canBeJoint =
      layout.strips * layout.lanes == length && ThreadCombiner::canCombineJointly(layout.threads);
  joint = canBeJoint ? JointReduction::of(work, length) : std::nullopt;
  bool isSingle = work.reductions.size() == 1 && work.reductions[0]->getNumResults() == 1;
  bool isWorthIt = layout.threads.blocks > 1 || layout.areTogether;
  if (!joint && (!isWorthIt || !isSingle)) {
    return std::nullopt;
  }
  Round round;
  round.joint = joint ? &*joint : nullptr;
  round.count = own;
  for (linalg::GenericOp op : work.reductions) {
    round.combiners.push_back(*Combiner::of(op));
    llvm::append_range(round.neutral, emitter.initial(op, rowPlace.outer));
  }
  return round;
}

void RowsFrame::reduceRows(ThreadCombiner &threads, const std::optional<Round> &round,
                           Value number) {
  if (round) {
    threads.send(reduceOfWarp(threads, *round), number);
    holdResults(threads.receive(*round, number));
    return;
  }
  threads.setRound(number);
  for (linalg::GenericOp op : work.reductions) {
    Combiner combiner = *Combiner::of(op);
    Accumulators neutral = emitter.initial(op, rowPlace.outer);
    emitter.hold(op, threads.combine(combiner, reduceOwn(op, combiner, neutral), neutral));
  }
}

Accumulators RowsFrame::reduceOfWarp(ThreadCombiner &threads, const Round &round) {
  return threads.ofWarp(round, reduceOwn(round));
}

Accumulators RowsFrame::reduceOwn(const Round &round) {
  linalg::GenericOp first = work.reductions[0];
  Accumulators own = reduceOwn(first, round.combiners[0], emitter.initial(first, rowPlace.outer));
  if (round.joint) {
    linalg::GenericOp second = work.reductions[1];
    emitter.hold(first, {round.joint->assumed(builder, location, own[0], round.count)});
    // What is computed of that is not what the row's result makes of it.
    emitter.openScope();
    Value other = reduceOwn(second, round.combiners[1], emitter.initial(second, rowPlace.outer))[0];
    emitter.closeScope();
    own.push_back(round.joint->reduced(builder, location, own[0], other));
  }
  return own;
}

void RowsFrame::holdResults(ArrayRef<Value> ofRound) {
  for (auto [op, result] : llvm::zip(work.reductions, ofRound)) {
    emitter.hold(op, {result});
  }
}

void RowsFrame::holdVectors(Value tensor, ArrayRef<Value> vectors, ArrayRef<Indices> places) {
  std::map<IndicesKey, std::pair<Value, int64_t>> lanes;
  for (auto [i, place] : llvm::enumerate(places)) {
    lanes[keyOf(place)] = {vectors[i / layout.lanes], i % layout.lanes};
  }
  emitter.hold(tensor, [this, tensor, lanes](ArrayRef<Index> place) -> Value {
    auto found = lanes.find(keyOf(place));
    if (found == lanes.end()) {
      return kernel.load(*kernel.region.bufferOf(tensor), getElementTypeOrSelf(tensor),
                         emitter.linear(tensor, place));
    }
    auto [vector, lane] = found->second;
    return ThreadBuilder(builder, location).extract(vector, lane);
  });
}

void RowsFrame::storeNarrow() { emitter.storeNarrow(work.narrow, 1, row, rowPlace, isRow, inRow); }

} // namespace tenon::codegen::cuda
