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

Value RowsFrame::isBelow(const Index &index, const Index &bound) {
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, math.value(index),
                               math.value(bound));
}

Index RowsFrame::atMost(const Index &index, const Index &bound) {
  Value last = math.value(math.add(bound, Index::constant(-1)));
  return {arith::MinSIOp::create(builder, location, math.value(index), last), 0, 1, true};
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
  Index bound = kernel.size(rows);
  isRow = isBelow(result, bound);
  return atMost(result, bound);
}

Index RowsFrame::stripNumber(int64_t step, Value &isInside) {
  int64_t threads = layout.threadsOfRow();
  Index number = math.add(inRow, Index::constant(step * threads));
  isInside = {};
  if ((step + 1) * threads <= layout.strips) {
    return number;
  }
  Index bound = Index::constant(layout.strips);
  isInside = isBelow(number, bound);
  return atMost(number, bound);
}

void RowsFrame::placeIn(const Index &group) {
  row = rowIn(group, isRow);
  rowPlace = math.delinearize(row, kernel.sizes(work.rows));
  Indices inner = kernel.sizes(work.inner);
  Index rowStart = math.multiply(row, Index::constant(layout.strips * layout.lanes));
  tn::Dims dims = work.rows;
  dims.append(work.inner);
  strips.clear();
  for (int64_t step = 0; step < layout.steps; ++step) {
    Strip strip;
    Index first = math.multiply(stripNumber(step, strip.isInside), Index::constant(layout.lanes));
    for (int64_t lane = 0; lane < layout.lanes; ++lane) {
      Index position = math.add(first, Index::constant(lane));
      Indices at = rowPlace;
      at.append(math.delinearize(position, inner));
      strip.linears.push_back(math.add(rowStart, position));
      emitter.setLinear(dims, at, strip.linears.back());
      strip.places.push_back(std::move(at));
    }
    strips.push_back(std::move(strip));
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
    llvm::append_range(round.neutral, emitter.initial(op, rowPlace));
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
    Accumulators neutral = emitter.initial(op, rowPlace);
    hold(op, threads.combine(combiner, reduceOwn(op, combiner, neutral), neutral));
  }
}

Accumulators RowsFrame::reduceOfWarp(ThreadCombiner &threads, const Round &round) {
  return threads.ofWarp(round, reduceOwn(round));
}

Accumulators RowsFrame::reduceOwn(const Round &round) {
  linalg::GenericOp first = work.reductions[0];
  Accumulators own = reduceOwn(first, round.combiners[0], emitter.initial(first, rowPlace));
  if (round.joint) {
    linalg::GenericOp second = work.reductions[1];
    hold(first, {round.joint->assumed(builder, location, own[0], round.count)});
    // What is computed of that is not what the row's result makes of it.
    emitter.openScope();
    Value other = reduceOwn(second, round.combiners[1], emitter.initial(second, rowPlace))[0];
    emitter.closeScope();
    own.push_back(round.joint->reduced(builder, location, own[0], other));
  }
  return own;
}

void RowsFrame::holdResults(ArrayRef<Value> ofRound) {
  for (auto [op, result] : llvm::zip(work.reductions, ofRound)) {
    hold(op, {result});
  }
}

Accumulators RowsFrame::combineStrip(const Combiner &combiner, const Strip &strip,
                                     ArrayRef<Accumulators> elements, const Accumulators &neutral) {
  Accumulators part = combiner.combine(builder, location,
                                       SmallVector<Accumulators>(elements.begin(), elements.end()));
  for (auto [value, other] : llvm::zip(part, neutral)) {
    if (strip.isInside) {
      value = arith::SelectOp::create(builder, location, strip.isInside, value, other);
    }
  }
  return part;
}

void RowsFrame::hold(linalg::GenericOp op, const Accumulators &values) {
  for (auto [result, value] : llvm::zip(op->getResults(), values)) {
    emitter.hold(result, [value](ArrayRef<Index>) { return value; });
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

void RowsFrame::store(const Strip &strip, ArrayRef<SmallVector<Value>> ofRoots) {
  emitter.when(strip.isInside, [&] {
    for (auto [root, elements] : llvm::zip(work.wide, ofRoots)) {
      for (auto [element, linear] : llvm::zip(elements, strip.linears)) {
        kernel.store(root.buffer, element, linear);
      }
    }
  });
}

void RowsFrame::storeNarrow() {
  if (work.narrow.empty()) {
    return;
  }
  SmallVector<Value> values;
  for (const Root &root : work.narrow) {
    Indices at = rowPlace;
    at.resize(kernel.region.dims(root.tensor).size(), Index::constant(0));
    values.push_back(emitter.element(root.tensor, at));
  }
  emitter.when(isRow, [&] {
    emitter.when(layout.threadsOfRow() == 1 ? Value() : isBelow(inRow, Index::constant(1)), [&] {
      for (auto [root, value] : llvm::zip(work.narrow, values)) {
        kernel.store(root.buffer, value, row);
      }
    });
  });
}

} // namespace tenon::codegen::cuda
