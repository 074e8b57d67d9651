// The kernel for rows that are copied to shared memory ahead of their use: while a row is worked on
// the next one is on its way. Relies on each thread reading only what it has copied itself, so that
// the copies need no barrier.
#include "compiler/codegen/cuda/RowsFrame.h"

#include "compiler/codegen/common/Programs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

class StagedRows : RowsFrame {
public:
  StagedRows(RegionBuilder &region, const RowsWork &work, const RowsLayout &layout)
      : RowsFrame(region, work, layout), memory(kernel.dynamicShared()) {
    if (layout.blocksOfProcessor != 0) {
      Operation *function = builder.getInsertionBlock()->getParentOp();
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                        builder.getI32IntegerAttr(layout.blocksOfProcessor));
    }
  }

  bool run();

private:
  /// The groups of rows that a block works on.
  struct Groups {
    Index first, end, step;
  };
  Groups groups();
  void copy(const Index &group, Value isThere, Value slot);
  void reduce(ThreadCombiner &threads);
  std::optional<ThreadCombiner::Round> onlyRound();
  Accumulators reduceOwn(const ThreadCombiner::Round &round);
  void emitRounds(ThreadCombiner &threads, const Index &group);
  void emitOverlapped(ThreadCombiner &threads, const ThreadCombiner::Round &round,
                      const Groups &all, const Index &group);
  Value isThere(const Groups &all, const Index &group);
  Value slotAfter(Value slot, int64_t distance);
  void copyPointers();
  Accumulators reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                         const Accumulators &neutral);
  void storeWide();
  void finish();

  /// What a strip's elements are read from during one pass over it.
  void openPass(const Strip &strip, int64_t step, Value slot);
  void holdVector(Value tensor, Value vector, ArrayRef<Indices> places);
  Value stagedAt(size_t input, int64_t step, Value slot);
  Value i32(int64_t value) {
    return arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(value));
  }
  Value word(const Index &index) {
    return arith::IndexCastOp::create(builder, location, builder.getI32Type(), math.value(index));
  }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, location, a, b); }
  Value multiply(Value a, int64_t b) { return arith::MulIOp::create(builder, location, a, i32(b)); }

  /// A tensor that all rows read: its strips of this thread, or a copy of its pointer that is made
  /// for each row. Held wider than in memory a row of it would take too many registers.
  struct Parameter {
    Value tensor;
    SmallVector<Value> strips;
    Value pointer;
  };
  void holdParameters();
  Value parameterAt(const Parameter &parameter, int64_t step);

  Value memory;
  /// Of this round: where its rows are.
  Value currentSlot;
  SmallVector<Parameter> parameters;
  std::optional<JointReduction> joint;
};

/// Loads what blocks that stay can hold: for other blocks it would not be used often.
void StagedRows::holdParameters() {
  int64_t free = layout.parameterRegisters;
  for (Value tensor : work.parameters) {
    Parameter parameter;
    parameter.tensor = tensor;
    Type element = getElementTypeOrSelf(tensor);
    VectorType type = VectorType::get(layout.lanes, element);
    int64_t words = llvm::divideCeil(layout.steps * layout.lanes * byteSize(element), 4);
    bool isEven = layout.lanes * byteSize(element) % 4 == 0;
    for (int64_t step = 0; step < layout.steps && isEven && words <= free; ++step) {
      Value isInside;
      Index first = math.multiply(stripNumber(step, isInside), Index::constant(layout.lanes));
      parameter.strips.push_back(kernel.load(*kernel.region.bufferOf(tensor), type, first));
    }
    free -= parameter.strips.empty() ? 0 : words;
    parameters.push_back(std::move(parameter));
  }
}

Value StagedRows::parameterAt(const Parameter &parameter, int64_t step) {
  VectorType type = VectorType::get(layout.lanes, getElementTypeOrSelf(parameter.tensor));
  if (parameter.strips.empty()) {
    Value isInside;
    Index first = math.multiply(stripNumber(step, isInside), Index::constant(layout.lanes));
    return kernel.loadThrough(parameter.pointer, *kernel.region.bufferOf(parameter.tensor), type,
                              first);
  }
  int64_t count = type.getNumElements() * byteSize(type.getElementType()) / 4;
  Type wordsType = VectorType::get(count, builder.getI32Type());
  Value words = LLVM::BitcastOp::create(builder, location, wordsType, parameter.strips[step]);
  Value result = LLVM::UndefOp::create(builder, location, wordsType);
  for (int64_t i = 0; i < count; ++i) {
    Value own = LLVM::ExtractElementOp::create(builder, location, words, i32(i));
    result = LLVM::InsertElementOp::create(builder, location, result, kernel.copied(own), i32(i));
  }
  return LLVM::BitcastOp::create(builder, location, type, result);
}

/// The address of a strip of one of the inputs in shared memory.
Value StagedRows::stagedAt(size_t input, int64_t step, Value slot) {
  int64_t ofStep = layout.blockThreads() * kStagedBytes;
  int64_t ofSlot = ofStep * layout.steps * static_cast<int64_t>(work.inputs.size());
  int64_t fixed = ofStep * (static_cast<int64_t>(input) * layout.steps + step);
  Value place = add(multiply(slot, ofSlot), multiply(word(thread), kStagedBytes));
  Type byte = builder.getI8Type();
  Value own = LLVM::GEPOp::create(builder, location, memory.getType(), byte, memory,
                                  ArrayRef<LLVM::GEPArg>{place});
  return LLVM::GEPOp::create(builder, location, memory.getType(), byte, own,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(fixed)});
}

/// Starts copies of a group's rows to a slot, if there is such a group.
void StagedRows::copy(const Index &group, Value isThere, Value slot) {
  Value ignored;
  Index length = Index::constant(layout.strips * layout.lanes);
  Index rowStart = math.multiply(rowIn(group, ignored), length);
  Value bytes = arith::SelectOp::create(builder, location, isThere, i32(kStagedBytes), i32(0));
  for (auto [i, input] : llvm::enumerate(work.inputs)) {
    unsigned buffer = *kernel.region.bufferOf(input);
    Value source = kernel.pointer(buffer, kernel.writes(buffer));
    for (int64_t step = 0; step < layout.steps; ++step) {
      Index first = math.multiply(stripNumber(step, ignored), Index::constant(layout.lanes));
      Value from = kernel.address(source, getElementTypeOrSelf(input), math.add(rowStart, first));
      NVVM::CpAsyncOp::create(builder, location, stagedAt(i, step, slot), from, kStagedBytes,
                              NVVM::LoadCacheModifierKind::CG, bytes);
    }
  }
  NVVM::CpAsyncCommitGroupOp::create(builder, location);
}

void StagedRows::holdVector(Value tensor, Value vector, ArrayRef<Indices> places) {
  std::map<IndicesKey, int64_t> lanes;
  for (auto [lane, place] : llvm::enumerate(places)) {
    lanes[keyOf(place)] = lane;
  }
  emitter.hold(tensor, [this, tensor, vector, lanes](ArrayRef<Index> place) -> Value {
    auto found = lanes.find(keyOf(place));
    if (found == lanes.end()) {
      return kernel.load(*kernel.region.bufferOf(tensor), getElementTypeOrSelf(tensor),
                         emitter.linear(tensor, place));
    }
    return LLVM::ExtractElementOp::create(builder, location, vector, i32(found->second));
  });
}

void StagedRows::openPass(const Strip &strip, int64_t step, Value slot) {
  for (auto [i, input] : llvm::enumerate(work.inputs)) {
    VectorType type = VectorType::get(layout.lanes, getElementTypeOrSelf(input));
    Value vector =
        LLVM::LoadOp::create(builder, location, type, stagedAt(i, step, slot), kStagedBytes);
    holdVector(input, vector, strip.places);
  }
  for (const Parameter &parameter : parameters) {
    size_t rank = kernel.region.dims(parameter.tensor).size(), inner = work.inner.size();
    SmallVector<Indices> places;
    for (const Indices &place : strip.places) {
      Indices at(rank - inner, Index::constant(0));
      llvm::append_range(at, ArrayRef(place).take_back(inner));
      places.push_back(std::move(at));
    }
    holdVector(parameter.tensor, parameterAt(parameter, step), places);
  }
}

/// Over the elements of the thread.
Accumulators StagedRows::reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                                   const Accumulators &neutral) {
  SmallVector<Accumulators> parts;
  for (auto [i, strip] : llvm::enumerate(strips)) {
    emitter.openScope();
    openPass(strip, i, currentSlot);
    SmallVector<Accumulators> starts(strip.places.size(), neutral);
    SmallVector<SmallVector<Value>> results = emitter.steps(op, strip.places, starts);
    parts.push_back(combineStrip(combiner, strip, results, neutral));
    emitter.closeScope();
  }
  return combiner.combine(builder, location, std::move(parts));
}

/// Each reduction in a round of its own.
void StagedRows::reduce(ThreadCombiner &threads) {
  for (linalg::GenericOp op : work.reductions) {
    Combiner combiner = *Combiner::of(op);
    Accumulators neutral = emitter.initial(op, rowPlace);
    hold(op, threads.combine(combiner, reduceOwn(op, combiner, neutral), neutral));
  }
}

/// The round that does all of the reductions, if one can.
std::optional<ThreadCombiner::Round> StagedRows::onlyRound() {
  int64_t own = layout.steps * layout.lanes, length = own * layout.threadsOfRow();
  bool canBeJoint =
      layout.strips * layout.lanes == length && ThreadCombiner::canCombineJointly(layout.threads);
  joint = canBeJoint ? JointReduction::of(work, length) : std::nullopt;
  if (layout.threads.blocks == 1 || layout.slots < 3 || (!joint && work.reductions.size() != 1)) {
    return std::nullopt;
  }
  ThreadCombiner::Round round;
  round.joint = joint ? &*joint : nullptr;
  round.count = own;
  for (linalg::GenericOp op : work.reductions) {
    round.combiners.push_back(*Combiner::of(op));
    llvm::append_range(round.neutral, emitter.initial(op, rowPlace));
  }
  return round;
}

/// What the thread's elements come to.
Accumulators StagedRows::reduceOwn(const ThreadCombiner::Round &round) {
  linalg::GenericOp first = work.reductions[0];
  Accumulators own = reduceOwn(first, round.combiners[0], emitter.initial(first, rowPlace));
  if (round.joint) {
    linalg::GenericOp second = work.reductions[1];
    hold(first, {round.joint->assumed(builder, location, own[0], round.count)});
    Value other = reduceOwn(second, round.combiners[1], emitter.initial(second, rowPlace))[0];
    own.push_back(round.joint->reduced(builder, location, own[0], other));
  }
  return own;
}

void StagedRows::storeWide() {
  when(isRow, [&] {
    for (auto [i, strip] : llvm::enumerate(strips)) {
      emitter.openScope();
      openPass(strip, i, currentSlot);
      SmallVector<SmallVector<Value>> values;
      for (const Root &root : work.wide) {
        values.push_back(emitter.elements(root.tensor, strip.places));
      }
      store(strip, values);
      emitter.closeScope();
    }
  });
}

StagedRows::Groups StagedRows::groups() {
  Index end = kernel.size(groupCount());
  if (layout.groupsPerBlock == 0) {
    return {firstGroup, end, Index::constant(layout.groupsAtOnce)};
  }
  Index count = Index::constant(layout.groupsPerBlock);
  Index first = math.multiply(firstGroup, count);
  Value ownEnd = math.value(math.add(first, count));
  Value last = arith::MinSIOp::create(builder, location, ownEnd, math.value(end));
  return {first, {last, 0, 1, true}, Index::constant(1)};
}

void StagedRows::finish() {
  AffineExpr groups = groupCount();
  AffineExpr bytes = getAffineConstantExpr(std::max(layout.sharedBytes, layout.stagedBytes(work)),
                                           builder.getContext());
  if (layout.groupsPerBlock != 0) {
    return kernel.finish(groups.ceilDiv(layout.groupsPerBlock) * layout.threads.blocks, bytes);
  }
  kernel.finish(groups * layout.threads.blocks, bytes);
  Program &grid = kernel.region.code.steps.back().grid;
  grid.push_back({engine::ExprOp::Constant, layout.groupsAtOnce * layout.threads.blocks});
  grid.push_back({engine::ExprOp::Min});
}

Value StagedRows::isThere(const Groups &all, const Index &group) {
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, math.value(group),
                               math.value(all.end));
}

/// The slot `distance` after one.
Value StagedRows::slotAfter(Value slot, int64_t distance) {
  if (layout.slots == 1) {
    return slot;
  }
  Value after = add(slot, i32(distance % layout.slots));
  Value isBeyond =
      arith::CmpIOp::create(builder, location, arith::CmpIPredicate::sge, after, i32(layout.slots));
  return arith::SelectOp::create(builder, location, isBeyond, add(after, i32(-layout.slots)),
                                 after);
}

void StagedRows::copyPointers() {
  for (Parameter &parameter : parameters) {
    unsigned buffer = *kernel.region.bufferOf(parameter.tensor);
    parameter.pointer = kernel.copied(kernel.pointer(buffer, kernel.writes(buffer)));
  }
}

/// Reduces rows in the loop's order, each before it is stored.
void StagedRows::emitRounds(ThreadCombiner &threads, const Index &group) {
  NVVM::CpAsyncWaitGroupOp::create(builder, location, layout.slots - 1);
  placeIn(group);
  copyPointers();
  threads.setSlot(currentSlot);
  reduce(threads);
  storeWide();
  storeNarrow();
}

/// Reduces the next row while the results of this one are on their way between the blocks.
void StagedRows::emitOverlapped(ThreadCombiner &threads, const ThreadCombiner::Round &round,
                                const Groups &all, const Index &group) {
  NVVM::CpAsyncWaitGroupOp::create(builder, location, layout.slots - 2);
  Value slot = currentSlot, nextSlot = slotAfter(slot, 1);
  copyPointers();
  currentSlot = nextSlot;
  placeIn(atMost(math.add(group, all.step), all.end));
  Accumulators next = reduceOwn(round);
  Accumulators results = threads.receive(round, slot);
  threads.send(round, next, nextSlot);
  currentSlot = slot;
  placeIn(group);
  for (auto [op, result] : llvm::zip(work.reductions, results)) {
    hold(op, {result});
  }
  storeWide();
  storeNarrow();
}

bool StagedRows::run() {
  ThreadCombiner threads(kernel, layout.threads, math.value(thread));
  Groups all = groups();
  Index ahead = all.first;
  for (int64_t slot = 0; slot + 1 < layout.slots; ++slot) {
    copy(ahead, isThere(all, ahead), i32(slot));
    ahead = math.add(ahead, all.step);
  }
  holdParameters();
  threads.enterLoop(layout.slots);
  currentSlot = i32(0);
  placeIn(all.first);
  std::optional<ThreadCombiner::Round> round = onlyRound();
  if (round) {
    NVVM::CpAsyncWaitGroupOp::create(builder, location, layout.slots - 2);
    copyPointers();
    threads.send(*round, reduceOwn(*round), currentSlot);
  }
  scf::ForOp loop =
      scf::ForOp::create(builder, location, math.value(all.first), math.value(all.end),
                         math.value(all.step), ValueRange{currentSlot});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    emitter.openScope();
    Index group{loop.getInductionVar(), 0, 1, true};
    Value slot = currentSlot = loop.getRegionIterArg(0);
    Index next = math.add(group, Index::constant(all.step.offset * (layout.slots - 1)));
    copy(next, isThere(all, next), slotAfter(slot, layout.slots - 1));
    if (round) {
      emitOverlapped(threads, *round, all, group);
    } else {
      emitRounds(threads, group);
    }
    emitter.closeScope();
    scf::YieldOp::create(builder, location, ValueRange{slotAfter(slot, 1)});
  }
  if (round) {
    threads.leave();
  }
  finish();
  return !emitter.hasFailed();
}

} // namespace

void emitRowsStaged(RegionBuilder &region, const RowsWork &work, const RowsLayout &layout,
                    bool &hasFailed) {
  hasFailed |= !StagedRows(region, work, layout).run();
}

} // namespace tenon::codegen::cuda
