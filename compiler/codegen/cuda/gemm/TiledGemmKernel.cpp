// The main loop of a product: copies, fragments and accumulators. Relies on TiledGemmStore.cpp for
// what follows.
#include "compiler/codegen/cuda/gemm/TiledGemmKernel.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "compiler/codegen/cuda/gemm/IntegerSums.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

TiledGemmKernel::TiledGemmKernel(RegionBuilder &region, const GemmProblem &problem,
                                 const GemmTile &tile)
    : TiledGemmKernel(region, problem, tile, std::make_unique<StridedLoader>(problem, tile, 0),
                      std::make_unique<StridedLoader>(problem, tile, 1)) {
  simtA = static_cast<const StridedLoader *>(a.get());
  simtB = static_cast<const StridedLoader *>(b.get());
}

TiledGemmKernel::TiledGemmKernel(RegionBuilder &region, const GemmProblem &problem,
                                 const GemmTile &tile, std::unique_ptr<TileLoader> left,
                                 std::unique_ptr<TileLoader> right)
    : kernel(region, tile.threads()), emitter(kernel), p(problem), tile(tile),
      element(problem.a.at.element),
      stored(IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth())),
      a(std::move(left)), b(std::move(right)) {}

int64_t TiledGemmKernel::sharedBytes() const {
  if (tile.isSimt) {
    return 4 * std::max(tile.rows * sumPitch(), tile.depth * (tile.rows + tile.columns + 8));
  }
  int64_t ofStages = tile.stages * stageElements() * byteSize(stored);
  return storesFromRegisters() ? ofStages : std::max(ofStages, tile.rows * sumPitch() * 4);
}

/// Tiles are numbered [batch][columns][rows]: neighbours share a tile of B; where blocks go through
/// them, [batch][rows][columns]: neighbours share a tile of A, which is the larger one.
void TiledGemmKernel::placeTile(const ThreadBuilder &t, Value index) {
  Value rowTiles = t.ceilDiv(at.rowCount, tile.rows);
  Value columnTiles = t.ceilDiv(at.columnCount, tile.columns);
  if (blocksAtOnce() > 0) {
    at.column = t.mul(t.rem(index, columnTiles), tile.columns);
    index = t.div(index, columnTiles);
    at.row = t.mul(t.rem(index, rowTiles), tile.rows);
    at.batch = p.batch.empty() ? t.i32(0) : t.div(index, rowTiles);
  } else {
    at.row = t.mul(t.rem(index, rowTiles), tile.rows);
    index = t.div(index, rowTiles);
    at.column = t.mul(t.rem(index, columnTiles), tile.columns);
    at.batch = p.batch.empty() ? t.i32(0) : t.div(index, columnTiles);
  }
  a->place(kernel, at);
  b->place(kernel, at);
}

void TiledGemmKernel::place() {
  ThreadBuilder t = kernel.code();
  at.rowCount = kernel.size32(p.rows);
  at.columnCount = kernel.size32(p.columns);
  at.depthCount = kernel.size32(p.depth);
  at.thread = t.thread();
  rank = t.rem(t.block(), tile.splits);
  placeTile(t, t.div(t.block(), tile.splits));

  Value steps = t.ceilDiv(at.depthCount, tile.depth);
  int64_t slices = std::max<int64_t>(tile.slices, tile.splits);
  sliceSteps = t.ceilDiv(steps, slices);
  Value own = t.mul(sliceSteps, slices / tile.splits);
  firstStep = t.mul(rank, own);
  lastStep = t.min(steps, t.add(firstStep, own));
  shared = kernel.dynamicShared(tile.isWarpgroup ? kTileAlignment : 16);
  if (tile.isSimt) {
    placeSimt();
    return;
  }
  Value warp = t.div(at.thread, kWarp);
  int64_t across = tile.columns / tile.warpColumns;
  warpRow = t.mul(t.div(warp, across), tile.warpRows);
  warpColumn = t.mul(t.rem(warp, across), tile.warpColumns);
}

/// The copies of step `step` of the depth (if there is one) to its stage.
void TiledGemmKernel::copyStage(const ThreadBuilder &t, Value step, bool ofA, bool ofB) const {
  t.when(t.isLess(step, lastStep), [&](const ThreadBuilder &c) {
    Value stage = c.rem(c.sub(step, firstStep), tile.stages);
    Value to = c.offset(shared, stored, c.mul(stage, stageElements()));
    Value depth = c.mul(step, tile.depth);
    if (ofB) {
      b->copy(c, depth, c.offset(to, stored, a->elements()));
    }
    if (ofA) {
      a->copy(c, depth, to);
    }
  });
}

/// The accumulators, by 16 rows and 8 columns, with the products of one stage added.
Values TiledGemmKernel::multiplyStage(const ThreadBuilder &t, Value step,
                                      ValueRange accumulators) const {
  Values result(accumulators);
  int64_t rowTiles = tile.warpRows / kMmaRows, columnTiles = tile.warpColumns / kMmaColumns;
  Value stage = t.rem(t.sub(step, firstStep), tile.stages);
  Value aTile = t.offset(shared, stored, t.mul(stage, stageElements()));
  Value bTile = t.offset(aTile, stored, a->elements());
  // A stored [row][depth] is read as it is, [depth][row] transposed; B stored [depth][column]
  // transposed, [column][depth] as it is.
  TileSpot aSpot = a->depthIsInner ? rowsFirst(t) : columnsFirst(t);
  TileSpot bSpot = b->depthIsInner ? columnsFirst(t) : rowsFirst(t);
  Value aLine = a->depthIsInner ? t.add(warpRow, aSpot.row) : aSpot.row;
  Value aColumn = a->depthIsInner ? aSpot.column : t.add(warpRow, aSpot.column);
  Value bLine = b->depthIsInner ? t.add(warpColumn, bSpot.row) : bSpot.row;
  Value bColumn = b->depthIsInner ? bSpot.column : t.add(warpColumn, bSpot.column);
  Value aBase = t.offset(aTile, stored, t.add(t.mul(aLine, a->pitch), aColumn));
  Value bBase = t.offset(bTile, stored, t.add(t.mul(bLine, b->pitch), bColumn));
  for (int64_t depth = 0; depth < tile.depth; depth += kMmaDepth) {
    SmallVector<Values> left, right;
    for (int64_t r = 0; r < rowTiles; ++r) {
      int64_t at = a->depthIsInner ? r * 16 * a->pitch + depth : depth * a->pitch + r * 16;
      left.push_back(loadMatrices(t, t.offset(aBase, stored, at), !a->depthIsInner));
    }
    for (int64_t c = 0; c < columnTiles / 2; ++c) {
      int64_t at = b->depthIsInner ? c * 16 * b->pitch + depth : depth * b->pitch + c * 16;
      right.push_back(loadMatrices(t, t.offset(bBase, stored, at), !b->depthIsInner));
    }
    for (int64_t r = 0; r < rowTiles; ++r) {
      for (int64_t c = 0; c < columnTiles; ++c) {
        const Values &words = right[c / 2];
        MutableArrayRef<Value> sum =
            MutableArrayRef<Value>(result).slice((r * columnTiles + c) * 4, 4);
        Value columnWords[] = {words[c % 2 * 2], words[c % 2 * 2 + 1]};
        Values next = element.isInteger() ? multiplyBytes(t, p.isSigned, left[r], columnWords, sum)
                                          : multiply(t, element, left[r], columnWords, sum);
        llvm::copy(next, sum.begin());
      }
    }
  }
  return result;
}

/// The same by warpgroups; when it returns, they have read the stage before.
Values TiledGemmKernel::multiplyByWarpgroup(const ThreadBuilder &t, Value step,
                                            ValueRange accumulators) const {
  Value number = t.sub(step, firstStep);
  Value aTile = t.offset(shared, stored, t.mul(t.rem(number, tile.stages), stageElements()));
  Value bTile = t.offset(aTile, stored, a->elements());
  Value group = t.div(at.thread, kWarpgroup);
  Value own = t.offset(aTile, stored, t.mul(group, kGroupRows * a->pitch));
  Type byte = IntegerType::get(element.getContext(), 8,
                               p.isSigned ? IntegerType::Signless : IntegerType::Unsigned);
  return addStage(t, byte, own, bTile, RightOrder::DepthInner, tile.columns, number,
                  Values(accumulators));
}

/// Adds the products of one stage as gemv does: the two panels of 32 apart from each other, and in
/// each the depths 8 t .. 8 t + 7 of lane 4 g + t for two mma. The accumulators of odd panels lie
/// behind those of even ones.
void TiledGemmKernel::multiplyPanels(const ThreadBuilder &t, Value step,
                                     MutableArrayRef<Value> accumulators) const {
  constexpr int64_t kPanel = 32, kWords = 4;
  int64_t rowTiles = tile.warpRows / kMmaRows, columnTiles = tile.warpColumns / kMmaColumns;
  Type words = t.vectorType(kWords, t.i32Type());
  Value stage = t.rem(t.sub(step, firstStep), tile.stages);
  Value aTile = t.offset(shared, stored, t.mul(stage, stageElements()));
  Value bTile = t.offset(aTile, stored, a->elements());
  Value group = t.div(t.lane(), 4), along = t.mul(t.rem(t.lane(), 4), 8);
  Value aBase = t.offset(aTile, stored, t.add(t.mul(t.add(warpRow, group), a->pitch), along));
  Value bBase = t.offset(bTile, stored, t.add(t.mul(t.add(warpColumn, group), b->pitch), along));
  auto wordsAt = [&](Value base, int64_t offset) {
    Value vector = t.load(words, t.offset(base, stored, offset), 16);
    Values result;
    for (int64_t i = 0; i < kWords; ++i) {
      result.push_back(t.extract(vector, i));
    }
    return result;
  };
  for (int64_t panel = 0; panel < tile.depth / kPanel; ++panel) {
    SmallVector<Values> left, right;
    for (int64_t r = 0; r < 2 * rowTiles; ++r) {
      left.push_back(wordsAt(aBase, r * 8 * a->pitch + panel * kPanel));
    }
    for (int64_t c = 0; c < columnTiles; ++c) {
      right.push_back(wordsAt(bBase, c * 8 * b->pitch + panel * kPanel));
    }
    for (int64_t r = 0; r < rowTiles; ++r) {
      for (int64_t c = 0; c < columnTiles; ++c) {
        MutableArrayRef<Value> sum =
            accumulators.slice(((panel * rowTiles + r) * columnTiles + c) * 4, 4);
        for (int64_t k = 0; k < kWords; k += 2) {
          const Values &low = left[2 * r], &high = left[2 * r + 1];
          llvm::copy(multiply(t, element, {low[k], high[k], low[k + 1], high[k + 1]},
                              {right[c][k], right[c][k + 1]}, sum),
                     sum.begin());
        }
      }
    }
  }
}

/// The copies of a tile's first stages.
void TiledGemmKernel::startCopies(const ThreadBuilder &t, bool ofB) const {
  for (int64_t i = 0; i < tile.ahead(); ++i) {
    copyStage(t, t.add(firstStep, i), /*ofA=*/true, ofB);
    commitCopies(t);
  }
}

void TiledGemmKernel::startProducts() {
  ThreadBuilder t = kernel.code();
  // Weights are there before any kernel runs: their copies start while the predecessor still works.
  func::FuncOp source = kernel.region.source;
  bool isConstant = b->buffer < source.getNumArguments() &&
                    source.getArgAttr(b->buffer, kConstantArgument) && tile.stages > 1;
  if (isConstant) {
    for (int64_t i = 0; i < tile.ahead(); ++i) {
      copyStage(t, t.add(firstStep, i), /*ofA=*/false, /*ofB=*/true);
    }
  }
  kernel.waitHere();
  kernel.launchDependentsHere();
  startCopies(t, /*ofB=*/!isConstant);
}

/// Waits for the stage of a step, and has the copies of a later one take the place of a step
/// before.
void TiledGemmKernel::turnStages(const ThreadBuilder &t, Value step) const {
  waitForCopies(t, tile.ahead() - 1);
  if (tile.isWarpgroup) {
    releaseTiles(t);
  }
  // This stage is visible to all, and all are done with the one whose place is taken.
  t.barrier();
  copyStage(t, t.add(step, tile.ahead()), true, true);
  commitCopies(t);
}

/// The accumulators of a block that adds up slices, in their order.
Values TiledGemmKernel::addSlices() {
  ThreadBuilder t = kernel.code();
  int64_t count = tile.warpRows * tile.warpColumns / kWarp, own = tile.slices / tile.splits;
  // Of two panels; and what leaves the first slice as it is.
  Values zeros(2 * count, t.f32(0)), nothing(count, t.f32(-0.0));
  return t.loop(t.i32(0), t.i32(own), t.i32(1), nothing,
                [&](const ThreadBuilder &outer, Value slice, ValueRange totals) {
                  Value first = outer.add(firstStep, outer.mul(slice, sliceSteps));
                  Value last = outer.min(lastStep, outer.add(first, sliceSteps));
                  Values sums =
                      outer.loop(first, last, outer.i32(1), zeros,
                                 [&](const ThreadBuilder &c, Value index, ValueRange accumulators) {
                                   turnStages(c, index);
                                   Values result(accumulators);
                                   multiplyPanels(c, index, result);
                                   return result;
                                 });
                  Values result;
                  for (int64_t i = 0; i < count; ++i) {
                    result.push_back(outer.addF(totals[i], outer.addF(sums[i], sums[count + i])));
                  }
                  return result;
                });
}

/// The accumulators of this block's part of the depth.
Values TiledGemmKernel::addProducts() {
  if (tile.slices > 0) {
    return addSlices();
  }
  ThreadBuilder t = kernel.code();
  bool isFma = element.isF32(), isInteger = sumsIntegers(tensors);
  int64_t count = tile.warpRows * tile.warpColumns / kWarp;
  Values sums =
      t.loop(firstStep, lastStep, t.i32(1), Values(count, isInteger ? t.i32(0) : t.f32(0)),
             [&](const ThreadBuilder &c, Value index, ValueRange accumulators) {
               turnStages(c, index);
               if (tile.isWarpgroup) {
                 return multiplyByWarpgroup(c, index, accumulators);
               }
               if (isInteger && !element.isInteger()) {
                 return addIntegers(c, accumulators, [&](ValueRange zeros) {
                   return multiplyStage(c, index, zeros);
                 });
               }
               return isFma ? multiplyStageFma(c, index, accumulators)
                            : multiplyStage(c, index, accumulators);
             });
  return tile.isWarpgroup ? finishStages(t, sums) : sums;
}

} // namespace tenon::codegen::cuda
