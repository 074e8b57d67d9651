// The loop over a block's rows: each is reduced and stored, or reduced while the one before is
// agreed on. Relies on as many blocks running at once as the layout says.
#include "compiler/codegen/cuda/rows/RowsStaged.h"

#include "compiler/codegen/common/region/Programs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {

Accumulators StagedRows::reduceOwn(linalg::GenericOp op, const Combiner &combiner,
                                   const Accumulators &neutral) {
  SmallVector<Accumulators> parts;
  for (auto [i, strip] : llvm::enumerate(strips)) {
    emitter.openScope();
    openPass(strip, i);
    parts.push_back(emitter.reduceStrips(op, combiner, neutral, strip, 1)[0]);
    emitter.closeScope();
  }
  endPass();
  return combiner.combine(builder, location, std::move(parts));
}

void StagedRows::storeStrip(int64_t step) {
  emitter.openScope();
  openPass(strips[step], step);
  emitter.storeStrips(work.wide, strips[step], Value());
  emitter.closeScope();
}

void StagedRows::storeWide() {
  emitter.when(isRow, [&] {
    for (int64_t step = 0; step < layout.steps; ++step) {
      storeStrip(step);
    }
  });
}

Index StagedRows::opaque(const Index &index) {
  auto cast = [&](Type type, Value value) -> Value {
    return arith::IndexCastOp::create(builder, location, type, value);
  };
  Value word = kernel.copied(cast(builder.getI32Type(), math.value(index)));
  return {cast(builder.getIndexType(), word), 0, 1, true};
}

StagedRows::Groups StagedRows::groups() {
  Index end = kernel.size(groupCount());
  if (layout.groupsPerBlock == 0) {
    return {firstGroup, end, Index::constant(layout.concurrentGroups)};
  }
  Index count = Index::constant(layout.groupsPerBlock);
  Index first = math.multiply(firstGroup, count);
  Value ownEnd = math.value(math.add(first, count));
  Value last = arith::MinSIOp::create(builder, location, ownEnd, math.value(end));
  return {first, {last, 0, 1, true}, Index::constant(1)};
}

void StagedRows::finish() {
  AffineExpr groups = groupCount();
  int64_t staged = layout.stagedBytes(work.inputs.size());
  int64_t bytes = std::max(layout.sharedBytes, staged);
  if (layout.groupsPerBlock != 0) {
    return kernel.finish(groups.ceilDiv(layout.groupsPerBlock) * layout.threads.blocks, bytes);
  }
  if (layout.threads.blocks > 1) {
    // Clusters that start while others still run leave gaps that no cluster fits: layer norm of
    // rows of 65,536 took 1.22 times as long in a graph (an H200), add and norm 1.07.
    kernel.launchDependentsHere();
  }
  kernel.finish(groups * layout.threads.blocks, bytes);
  Program &grid = kernel.region.code.steps.back().grid;
  grid.push_back({engine::ExprOp::Constant, layout.concurrentGroups * layout.threads.blocks});
  grid.push_back({engine::ExprOp::Min});
}

Value StagedRows::isThere(const Groups &all, const Index &group) {
  return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, math.value(group),
                               math.value(all.end));
}

Value StagedRows::stageAfter(Value stage, int64_t distance) {
  int64_t stages = layout.stages;
  Value after = add(stage, i32(distance % stages));
  Value isBeyond =
      arith::CmpIOp::create(builder, location, arith::CmpIPredicate::sge, after, i32(stages));
  return arith::SelectOp::create(builder, location, isBeyond, add(after, i32(-stages)), after);
}

/// Reduces rows in the loop's order, each before it is stored. Where there is one stage the next
/// row takes the place of this one once all of it is stored: reads among the stores cost 1 to 2 %
/// (add and layer norm of 262,144 on an H200).
void StagedRows::emitRounds(ThreadCombiner &threads, const std::optional<Round> &round,
                            const Groups &all, const Index &group, Value number) {
  expectRows(layout.stages - 1);
  placeIn(group);
  copyPointers();
  reduceRows(threads, round, number);
  storeWide();
  if (isRefilled()) {
    Index next = math.add(group, all.step);
    copy(next, isThere(all, next), currentStage);
  }
  storeNarrow();
}

/// Reduces the next row while the results of this one are on their way between the blocks, which
/// are received before the reduction may branch, so that neither waits for the other; behind the
/// last row it does so once more for nothing.
void StagedRows::emitOverlapped(ThreadCombiner &threads, const Round &round, const Groups &all,
                                const Index &group, Value number) {
  expectRows(layout.stages - 2);
  Value stage = currentStage;
  copyPointers();
  currentStage = stageAfter(stage, 1);
  placeIn(emitter.atMost(math.add(group, all.step), all.end));
  Accumulators next = beginReduction(threads, round);
  Accumulators results = threads.receive(round, number);
  threads.send(finishReduction(threads, round, std::move(next)), add(number, i32(1)));
  currentStage = stage;
  placeIn(group);
  holdResults(results);
  storeWide();
  storeNarrow();
}

bool StagedRows::run() {
  ThreadCombiner threads(kernel, layout.threads, math.value(thread));
  Groups all = groups();
  if (layout.areTogether) {
    placeIn(all.first);
    if (std::optional<Round> round = onlyRound()) {
      emitTogether(threads, *round, all);
      finish();
      return !emitter.hasFailed();
    }
  }
  Index ahead = all.first;
  for (int64_t stage = 0; stage + 1 < (isRefilled() ? 2 : layout.stages); ++stage) {
    copy(ahead, isThere(all, ahead), i32(stage));
    ahead = math.add(ahead, all.step);
  }
  holdParameters();
  threads.enterLoop();
  currentStage = i32(0);
  placeIn(all.first);
  // In a block one round gains 0.7 % for one input (layer norm of 4,096 and 16,384); of several it
  // takes registers that cost a block of the multiprocessor's.
  bool hasRound = layout.threads.blocks > 1 || work.inputs.size() == 1;
  std::optional<Round> round = hasRound ? onlyRound() : std::nullopt;
  bool isOverlapped = round && layout.threads.blocks > 1 && layout.stages > 2;
  if (isOverlapped) {
    expectRows(layout.stages - 2);
    copyPointers();
    threads.send(reduceOfWarp(threads, *round), i32(0));
  }
  scf::ForOp loop =
      scf::ForOp::create(builder, location, math.value(all.first), math.value(all.end),
                         math.value(all.step), ValueRange{currentStage, i32(0)});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    emitter.openScope();
    Index group{loop.getInductionVar(), 0, 1, true};
    Value stage = currentStage = loop.getRegionIterArg(0), number = loop.getRegionIterArg(1);
    // As it is in a register of its own, copies differ by constants that fit in an instruction.
    int64_t distance = all.step.offset * (layout.stages - 1);
    Index next = opaque(math.add(group, Index::constant(distance)));
    if (!isRefilled()) {
      copy(next, isThere(all, next), stageAfter(stage, layout.stages - 1));
    }
    if (isOverlapped) {
      emitOverlapped(threads, *round, all, group, number);
    } else {
      emitRounds(threads, round, all, group, number);
    }
    emitter.closeScope();
    scf::YieldOp::create(builder, location, ValueRange{stageAfter(stage, 1), add(number, i32(1))});
  }
  if (isOverlapped) {
    threads.receive(*round, loop.getResult(1));
  }
  finish();
  return !emitter.hasFailed();
}

void emitRowsStaged(RegionBuilder &region, const RowsWork &work, const RowReductionConfig &layout,
                    bool &hasFailed) {
  hasFailed |= !StagedRows(region, work, layout).run();
}

} // namespace tenon::codegen::cuda
