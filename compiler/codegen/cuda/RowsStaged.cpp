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
      : RowsFrame(region, work, layout), memory(kernel.dynamicShared()) {}

  bool run();

private:
  /// The groups of rows that a block works on.
  struct Groups {
    Index first, end, step;
  };
  Groups groups();
  void copy(const Index &group, Value isThere, Value slot);
  void reduce(linalg::GenericOp op, ThreadCombiner &threads);
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

  Value memory;
  /// Of this round: where its rows are, and its copies of the parameters' pointers.
  Value currentSlot;
  SmallVector<Value> parameterPointers;
};

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

/// Parameters are loaded anew for each row: a row's worth of them, wider than in memory, would take
/// more registers than the loads cost.
void StagedRows::openPass(const Strip &strip, int64_t step, Value slot) {
  for (auto [i, input] : llvm::enumerate(work.inputs)) {
    VectorType type = VectorType::get(layout.lanes, getElementTypeOrSelf(input));
    Value vector =
        LLVM::LoadOp::create(builder, location, type, stagedAt(i, step, slot), kStagedBytes);
    holdVector(input, vector, strip.places);
  }
  for (auto [parameter, pointer] : llvm::zip(work.parameters, parameterPointers)) {
    size_t rank = kernel.region.dims(parameter).size(), inner = work.inner.size();
    SmallVector<Indices> places;
    for (const Indices &place : strip.places) {
      Indices at(rank - inner, Index::constant(0));
      llvm::append_range(at, ArrayRef(place).take_back(inner));
      places.push_back(std::move(at));
    }
    Value isInside;
    Index first = math.multiply(stripNumber(step, isInside), Index::constant(layout.lanes));
    VectorType type = VectorType::get(layout.lanes, getElementTypeOrSelf(parameter));
    Value vector = kernel.loadThrough(pointer, *kernel.region.bufferOf(parameter), type, first);
    holdVector(parameter, vector, places);
  }
}

void StagedRows::reduce(linalg::GenericOp op, ThreadCombiner &threads) {
  Combiner combiner = *Combiner::of(op);
  Accumulators neutral = emitter.initial(op, rowPlace);
  SmallVector<Accumulators> parts;
  for (auto [i, strip] : llvm::enumerate(strips)) {
    emitter.openScope();
    openPass(strip, i, currentSlot);
    SmallVector<Accumulators> starts(strip.places.size(), neutral);
    SmallVector<SmallVector<Value>> results = emitter.steps(op, strip.places, starts);
    parts.push_back(combineStrip(combiner, strip, results, neutral));
    emitter.closeScope();
  }
  Accumulators own = combiner.combine(builder, location, std::move(parts));
  hold(op, threads.combine(combiner, std::move(own), neutral));
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
  AffineExpr bytes = getAffineConstantExpr(layout.stagedBytes(work), builder.getContext());
  if (layout.groupsPerBlock != 0) {
    return kernel.finish(groups.ceilDiv(layout.groupsPerBlock) * layout.threads.blocks, bytes);
  }
  kernel.finish(groups * layout.threads.blocks, bytes);
  Program &grid = kernel.region.code.steps.back().grid;
  grid.push_back({engine::ExprOp::Constant, layout.groupsAtOnce * layout.threads.blocks});
  grid.push_back({engine::ExprOp::Min});
}

bool StagedRows::run() {
  ThreadCombiner threads(kernel, layout.threads, math.value(thread));
  Groups all = groups();
  Value end = math.value(all.end);
  Index ahead = all.first;
  auto isThere = [&](const Index &group) -> Value {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, math.value(group),
                                 end);
  };
  for (int64_t slot = 0; slot + 1 < layout.slots; ++slot) {
    copy(ahead, isThere(ahead), i32(slot));
    ahead = math.add(ahead, all.step);
  }
  threads.enterLoop(layout.slots);
  scf::ForOp loop = scf::ForOp::create(builder, location, math.value(all.first), end,
                                       math.value(all.step), ValueRange{i32(0)});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    emitter.openScope();
    Index group{loop.getInductionVar(), 0, 1, true};
    currentSlot = loop.getRegionIterArg(0);
    Value isFirst =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, currentSlot, i32(0));
    Value before = arith::SelectOp::create(builder, location, isFirst, i32(layout.slots - 1),
                                           add(currentSlot, i32(-1)));
    Index next = math.add(group, Index::constant(all.step.offset * (layout.slots - 1)));
    copy(next, isThere(next), before);
    NVVM::CpAsyncWaitGroupOp::create(builder, location, layout.slots - 1);
    placeIn(group);
    for (Value parameter : work.parameters) {
      parameterPointers.push_back(kernel.copiedPointer(*kernel.region.bufferOf(parameter)));
    }
    threads.setSlot(currentSlot);
    for (linalg::GenericOp op : work.reductions) {
      reduce(op, threads);
    }
    storeWide();
    storeNarrow();
    emitter.closeScope();
    Value isLast = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, currentSlot,
                                         i32(layout.slots - 1));
    Value after =
        arith::SelectOp::create(builder, location, isLast, i32(0), add(currentSlot, i32(1)));
    scf::YieldOp::create(builder, location, ValueRange{after});
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
