// Where words and rows come from, and sums go to: the tiles of a block one after the other. Relies
// on LowBitGemvBlocks.cpp for the arithmetic.
#include "compiler/codegen/cuda/gemm/LowBitGemvKernel.h"

#include "compiler/codegen/cuda/gemm/EpilogueStore.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

void LowBitGemv::place() {
  ThreadBuilder t = kernel.code();
  thread = t.thread();
  warp = t.div(thread, kWarp);
  group = t.div(t.lane(), 4);
  quad = t.rem(t.lane(), 4);
  rowCount = kernel.size32(p.rowCount);
  inputPointer = kernel.orderedPointer(p.input);
  weightPointer = kernel.orderedPointer(p.weights);
  for (int64_t half : {0, 1}) {
    Value column = columnOf(t, t.block(), t.add(group, half * 8));
    columnPointers[half] =
        t.offset(weightPointer, t.i32Type(), t.mul(t.toI64(column), p.layout.rowWords()));
  }
  shared = kernel.dynamicShared();
  rowPointer = t.offset(shared, t.f32Type(), memory.sums / 4);
  totalPointer = t.offset(shared, t.f32Type(), (memory.sums + memory.rows) / 4);
}

/// The column of a tile's row; of two parts each has half of them. What is computed of the last
/// column once more is not stored.
Value LowBitGemv::columnOf(const ThreadBuilder &t, Value tile, Value inTile) const {
  Value firstColumn = t.mul(tile, p.tileColumns());
  Value column = t.add(firstColumn, p.parts == 1 ? inTile : t.rem(inTile, p.tileColumns()));
  if (p.partColumns() % p.tileColumns() != 0) {
    column = t.min(column, t.i32(p.partColumns() - 1));
  }
  return p.parts == 1 ? column
                      : t.add(column, t.mul(t.div(inTile, p.tileColumns()), p.partColumns()));
}

/// The stage of the block's step `number`, counted over its tiles.
Value LowBitGemv::stageAt(const ThreadBuilder &t, Value number) const {
  Value stage = t.add(t.mul(warp, stages()), t.rem(number, stages()));
  return t.offset(t.offset(shared, t.f32Type(), (memory.total() - memory.stages) / 4), t.i32Type(),
                  t.mul(stage, kColumns * chunkPitch()));
}

/// A step's words of all columns to their stage, 16 bytes a copy.
void LowBitGemv::copyStep(const ThreadBuilder &t, Value tile, Value step, Value number) const {
  int64_t copies = chunkWords() / 4, all = kColumns * copies;
  Value stage = stageAt(t, number);
  Value first = t.mul(blockOf(t, step, 0), p.layout.blockWords());
  for (int64_t i = 0; i < all; i += kWarp) {
    Value index = t.add(t.lane(), i);
    auto copy = [&](const ThreadBuilder &c) {
      Value inTile = c.div(index, copies), word = c.mul(c.rem(index, copies), 4);
      Value from = c.mul(c.toI64(columnOf(c, tile, inTile)), p.layout.rowWords());
      from = c.add(from, c.toI64(c.add(first, word)));
      copyAsync(c, c.offset(stage, c.i32Type(), c.add(c.mul(inTile, chunkPitch()), word)),
                c.offset(weightPointer, c.i32Type(), from), Value());
    };
    if (i + kWarp <= all) {
      copy(t);
    } else {
      t.when(t.isLess(index, t.i32(all)), copy);
    }
  }
}

/// The copies of the step that takes the place of this one, if the block has one more.
void LowBitGemv::copyAhead(const ThreadBuilder &t, Value tile, Value step, Value number) const {
  Value ahead = t.add(step, stages());
  Value next = t.add(tile, t.mul(t.div(ahead, steps()), layout.grid));
  t.when(t.isLess(next, t.i32(p.tiles())),
         [&](const ThreadBuilder &c) { copyStep(c, next, c.rem(ahead, steps()), number); });
  commitCopies(t);
}

/// The sums of a tile, whose first step is `firstNumber` of the block.
Values LowBitGemv::addStaged(const ThreadBuilder &t, Value tile, Value firstNumber) const {
  return t.loop(t.i32(0), t.i32(steps()), t.i32(1), Values(rowGroups() * kSums, t.f32(0)),
                [&](const ThreadBuilder &c, Value step, ValueRange before) {
                  waitForCopies(c, stages() - 1);
                  c.warpBarrier();
                  Value number = c.add(firstNumber, step);
                  Value stage = stageAt(c, number);
                  Values words;
                  for (int64_t block = 0; block < layout.blocks; ++block) {
                    for (int64_t half : {0, 1}) {
                      Value column = c.mul(c.add(group, half * 8), chunkPitch());
                      Value at = c.add(column, block * p.layout.blockWords());
                      readBlock(c, c.offset(stage, c.i32Type(), at), words);
                    }
                  }
                  Values sums = addStep(c, step, words, before);
                  c.warpBarrier();
                  copyAhead(c, tile, step, number);
                  return sums;
                });
}

/// Block `number` of a step: each warp has blocks that follow each other.
Value LowBitGemv::blockOf(const ThreadBuilder &t, Value step, int64_t number) const {
  Value inWarp = t.add(t.mul(step, layout.blocks), number);
  return t.add(t.mul(warp, blocksOfWarp()), inWarp);
}

Values LowBitGemv::fetch(const ThreadBuilder &t, Value step) const {
  Values result;
  for (int64_t number = 0; number < layout.blocks; ++number) {
    Value block = t.min(blockOf(t, step, number), t.i32(p.layout.blocks() - 1));
    Value word = t.mul(block, p.layout.blockWords());
    for (Value column : columnPointers) {
      readBlock(t, t.offset(column, t.i32Type(), word), result);
    }
  }
  return result;
}

/// The rows as they are into shared memory, each lane's part in its order.
void LowBitGemv::copyRows() {
  ThreadBuilder t = kernel.code();
  int64_t parts = p.layout.depth / kPart, threads = layout.warps * kWarp;
  Value end = t.mul(rowCount, parts);
  t.loop(thread, end, t.i32(threads), {}, [&](const ThreadBuilder &c, Value part, ValueRange) {
    Value row = c.div(part, parts), place = c.mul(c.rem(part, parts), kPart);
    Value from = c.offset(inputPointer, p.element, c.mul(part, kPart));
    Value loaded = c.load(c.vectorType(4, c.i32Type()), from, 16);
    Values words;
    for (int64_t i = 0; i < 4; ++i) {
      words.push_back(c.extract(loaded, i));
    }
    if (holdsTotals()) {
      addUp(c, row, place, words, Value());
    }
    loaded = c.pack(order()(c, words));
    Value to = c.add(c.mul(row, normedPitchOf(p.layout.depth)), place);
    c.store(loaded, c.offset(rowPointer, p.element, to), 16);
    return Values();
  });
  t.barrier();
}

/// Weights are there before any kernel runs and are on their way; rows are not.
void LowBitGemv::bringRows(std::optional<RowNorm> &norm) {
  kernel.waitHere();
  if (norm) {
    norm->normRows(inputPointer, rowCount, shared, rowPointer);
  } else if (holdsRows()) {
    copyRows();
  }
}

/// [warp][row][column] in shared memory, then one element of the tile a thread.
void LowBitGemv::finish(const ThreadBuilder &t, Value tile, Value base, ValueRange accumulators) {
  int64_t ofWarp = warpSums();
  Value own = t.offset(base, t.f32Type(), t.add(t.mul(warp, ofWarp), group));
  if (p.isOneRow()) {
    t.when(t.isEqual(quad, t.i32(0)), [&](const ThreadBuilder &c) {
      c.store(accumulators[0], own, 4);
      c.store(accumulators[2], c.offset(own, c.f32Type(), 8), 4);
    });
  } else {
    for (auto [i, sum] : llvm::enumerate(accumulators)) {
      int64_t inGroup = int64_t(i) % kSums, rowGroup = int64_t(i) / kSums;
      Value row = t.add(t.mul(quad, 2), rowGroup * kMmaColumns + inGroup % 2);
      Value to = t.offset(own, t.f32Type(), t.mul(row, kLowBitSumPitch));
      t.store(sum, t.offset(to, t.f32Type(), inGroup / 2 * 8), 4);
    }
  }
  t.barrier();
  emitter.openScope();
  int64_t columns = p.tileColumns();
  Value firstColumn = t.mul(tile, columns);
  for (int64_t first = 0; first < p.sumRows() * columns; first += layout.warps * kWarp) {
    Value index = t.add(thread, first);
    Value row = t.div(index, columns), tileColumn = t.rem(index, columns);
    Value column = t.add(firstColumn, tileColumn);
    Value isStored = t.bitAnd(t.isLess(row, rowCount), t.isLess(column, t.i32(p.partColumns())));
    emitter.when(isStored, [&] {
      ResultStrip strip;
      strip.parts = p.parts;
      strip.partColumns = p.partColumns();
      for (int64_t part = 0; part < p.parts; ++part) {
        Value total;
        for (int64_t i = 0; i < layout.warps; ++i) {
          Value from =
              t.add(t.add(t.mul(row, kLowBitSumPitch), tileColumn), i * ofWarp + part * columns);
          Value sum = t.load(t.f32Type(), t.offset(base, t.f32Type(), from), 4);
          total = total ? t.addF(total, sum) : sum;
        }
        strip.accumulators.push_back(total);
      }
      IndexMath &math = kernel.math;
      Index rowIndex = math.fromWord(row), columnIndex = math.fromWord(column);
      strip.place = math.delinearize(rowIndex, kernel.sizes(p.rowDims));
      strip.place.push_back(columnIndex);
      strip.linear =
          math.add(math.multiply(rowIndex, Index::constant(p.partColumns())), columnIndex);
      storeThroughEpilogue(emitter, tensors, strip);
    });
  }
  emitter.closeScope();
}

void LowBitGemv::addTiles() {
  ThreadBuilder t = kernel.code();
  if (tilesOfBlock() == 1) {
    finish(t, t.block(), shared, addStaged(t, t.block(), t.i32(0)));
    return;
  }
  t.loop(t.block(), t.i32(p.tiles()), t.i32(layout.grid), {},
         [&](const ThreadBuilder &c, Value tile, ValueRange) {
           Value number = c.div(tile, layout.grid);
           Value base = c.offset(shared, c.f32Type(), c.mul(c.rem(number, 2), memory.sums / 8));
           finish(c, tile, base, addStaged(c, tile, c.mul(number, steps())));
           return Values();
         });
}

bool LowBitGemv::emit() {
  std::optional<GemmTensors> found = productTensors(kernel.region);
  if (!found) {
    return false;
  }
  tensors = *found;
  kernel.setMinBlocksPerSm(layout.blocksPerSm);
  place();
  ThreadBuilder t = kernel.code();
  std::optional<RowNorm> norm;
  if (p.norm) {
    RowNorm::Rows rows{p.rows, p.layout.depth, !tn::constantDim(p.rowCount), layout.warps,
                       p.element};
    norm.emplace(kernel, *p.norm, rows, order());
    if (holdsTotals()) {
      norm->reader = [this](const ThreadBuilder &c, Value row, Value place, ArrayRef<Value> words,
                            Value isThere) { addUp(c, row, place, words, isThere); };
    }
    norm->fetchScales();
  }
  if (isStaged()) {
    for (int64_t number = 0; number < stages(); ++number) {
      int64_t tiles = number / steps() * layout.grid;
      Value tile = t.add(t.block(), tiles);
      auto copy = [&](const ThreadBuilder &c) {
        copyStep(c, tile, c.i32(number % steps()), c.i32(number));
      };
      if (tiles == 0) {
        copy(t);
      } else {
        t.when(t.isLess(tile, t.i32(p.tiles())), copy);
      }
      commitCopies(t);
    }
    bringRows(norm);
    addTiles();
  } else {
    finish(t, t.block(), shared, addFetched(t, norm));
  }
  kernel.finish(getAffineConstantExpr(layout.grid, kernel.builder.getContext()), memory.total());
  return !emitter.hasFailed();
}

/// The next step's words are loaded while those of this one are multiplied.
Values LowBitGemv::addFetched(const ThreadBuilder &t, std::optional<RowNorm> &norm) {
  Values carried = fetch(t, t.i32(0));
  bringRows(norm);
  size_t count = carried.size();
  carried.append(rowGroups() * kSums, t.f32(0));
  auto body = [&](const ThreadBuilder &c, Value step, ValueRange values) {
    Values next = fetch(c, c.add(step, 1));
    next.append(addStep(c, step, values.take_front(count), values.drop_front(count)));
    return next;
  };
  Values last = t.loop(t.i32(0), t.i32(steps() - 1), t.i32(1), carried, body);
  return addStep(t, t.i32(steps() - 1), ArrayRef<Value>(last).take_front(count),
                 ArrayRef<Value>(last).drop_front(count));
}

bool emitLowBitGemv(RegionBuilder &region, const LowBitProblem &problem,
                    const LowBitLayout &layout) {
  return LowBitGemv(region, problem, layout).emit();
}

} // namespace tenon::codegen::cuda
