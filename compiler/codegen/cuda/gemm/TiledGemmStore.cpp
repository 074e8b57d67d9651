// From the warps' accumulators to the result: through shared memory, where the blocks of a cluster
// add up their parts, and through the region's elementwise ops. Relies on the region's linalg form.
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"
#include "compiler/codegen/cuda/gemm/IntegerSums.h"
#include "compiler/codegen/cuda/gemm/TiledGemmKernel.h"
#include "compiler/codegen/cuda/gemm/Tuning.h"
#include "compiler/codegen/cuda/gemm/WarpgroupTiles.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {

using Values = ThreadBuilder::Values;

void TiledGemmKernel::clusterBarrier() {
  kernel.code().arriveAtCluster();
  kernel.code().waitForCluster();
}

/// Stores the warp's accumulators as [row][column] of f32.
void TiledGemmKernel::storeSums(ValueRange accumulators) {
  ThreadBuilder t = kernel.code();
  Value lane = t.lane();
  Value row = t.add(warpRow, t.div(lane, 4)), column = t.add(warpColumn, t.mul(t.rem(lane, 4), 2));
  Value base = t.offset(shared, t.f32Type(), t.add(t.mul(row, sumPitch()), column));
  int64_t columnTiles = tile.warpColumns / kMmaColumns;
  for (size_t i = 0; i < accumulators.size(); i += 2) {
    int64_t number = i / 4, below = i / 2 % 2;
    int64_t at = (number / columnTiles * 16 + below * 8) * sumPitch() + number % columnTiles * 8;
    t.store(t.pack({accumulators[i], accumulators[i + 1]}), t.offset(base, t.f32Type(), at), 8);
  }
}

/// Stores the accumulators over the stages, which are done with.
void TiledGemmKernel::shareSums(ValueRange accumulators) {
  ThreadBuilder t = kernel.code();
  waitForCopies(t, 0);
  t.barrier();
  if (element.isF32()) {
    storeSumsFma(accumulators);
  } else {
    storeSums(accumulators);
  }
  if (tile.splits > 1) {
    clusterBarrier();
  } else {
    t.barrier();
  }
}

/// `width` accumulators of a row over all blocks of the cluster.
Values TiledGemmKernel::totalOf(const ThreadBuilder &t, Value row, Value column,
                                int64_t width) const {
  Value own = t.offset(shared, t.f32Type(), t.add(t.mul(row, sumPitch()), column));
  int64_t part = std::min<int64_t>(width, 4);
  bool isInteger = sumsIntegers(tensors);
  Type sum = isInteger ? t.i32Type() : t.f32Type();
  Type type = part > 1 ? t.vectorType(part, sum) : sum;
  Values totals;
  for (int64_t split = 0; split < tile.splits; ++split) {
    Value from = tile.splits > 1 ? t.remote(own, t.i32(split)) : own;
    for (int64_t i = 0; i < width; i += part) {
      Value loaded = t.load(type, t.offset(from, t.f32Type(), i), part * 4);
      for (int64_t lane = 0; lane < part; ++lane) {
        Value value = part > 1 ? t.extract(loaded, lane) : loaded;
        if (split == 0) {
          totals.push_back(value);
        } else {
          Value &total = totals[i + lane];
          total = isInteger ? t.add(total, value) : t.addF(total, value);
        }
      }
    }
  }
  return totals;
}

/// A place of the result, and its number in row-major order.
Indices TiledGemmKernel::placeOf(const Index &row, const Index &column, Index &linear) {
  IndexMath &math = kernel.math;
  Index batch = math.fromWord(at.batch), inRow = column;
  Indices place;
  if (p.isGrouped) {
    inRow = math.add(math.multiply(batch, kernel.size(p.columns)), column);
    place = math.delinearize(row, kernel.sizes(p.rowDims));
    linear = math.multiply(row, kernel.size(p.columns * p.batch.front()));
  } else {
    place = math.delinearize(batch, kernel.sizes(p.batch));
    llvm::append_range(place, math.delinearize(row, kernel.sizes(p.rowDims)));
    linear = math.add(math.multiply(batch, kernel.size(p.rows)), row);
    linear = math.multiply(linear, kernel.size(p.columns));
  }
  linear = math.add(linear, inRow);
  place.push_back(inRow);
  return place;
}

/// Whether a lane's accumulators are strips of neighbours (inOrderOfLanes) that go through the
/// epilogue where they are: all of the depth is the block's own, and bytes are stored, of which a
/// way through shared memory would take longer than the product.
bool TiledGemmKernel::storesFromRegisters() const {
  return element.isInteger() && tile.splits == 1 && b->depthIsInner &&
         tile.warpColumns % kStripColumns == 0 && p.columns.isMultipleOf(kLaneStrip);
}

/// Of the whole product; none if it varies.
std::optional<int64_t> TiledGemmKernel::tileCount() const {
  std::optional<int64_t> rows = tn::constantDim(p.rows), columns = tn::constantDim(p.columns);
  if (!rows || !columns) {
    return std::nullopt;
  }
  int64_t count =
      llvm::divideCeilSigned(*rows, tile.rows) * llvm::divideCeilSigned(*columns, tile.columns);
  for (AffineExpr size : p.batch) {
    std::optional<int64_t> known = tn::constantDim(size);
    if (!known) {
      return std::nullopt;
    }
    count *= *known;
  }
  return count;
}

int64_t TiledGemmKernel::blocksPerSm() const {
  int64_t blocks =
      tile.isWarpgroup ? warpgroupBlocks(tile) : tuning::kTiledThreads / tile.threads();
  while (blocks > 1 && sharedBytes() > kernel.region.gpu.sharedOfBlock(blocks)) {
    --blocks;
  }
  return blocks;
}

/// How many blocks go from tile to tile, the next one's first stages on their way while sums go
/// through the epilogue; 0 where each block has one tile.
int64_t TiledGemmKernel::blocksAtOnce() const {
  std::optional<int64_t> tiles = storesFromRegisters() ? tileCount() : std::nullopt;
  if (!tiles) {
    return 0;
  }
  int64_t waves = llvm::divideCeilSigned(*tiles, kernel.region.gpu.cores * blocksPerSm());
  return waves > 1 ? llvm::divideCeilSigned(*tiles, waves) : 0;
}

void TiledGemmKernel::goThroughTiles(int64_t tiles, int64_t blocks) {
  ThreadBuilder t = kernel.code();
  auto body = [&](const ThreadBuilder &c, Value index, ValueRange) -> Values {
    emitter.openScope();
    placeTile(c, index);
    Values sums = addProducts();
    // All warps are done with the stages.
    c.barrier();
    BlockPlace own = at;
    Value next = c.add(index, blocks);
    c.when(c.isLess(next, c.i32(tiles)), [&](const ThreadBuilder &d) {
      emitter.openScope();
      placeTile(d, next);
      startCopies(d, /*ofB=*/true);
      emitter.closeScope();
    });
    at = own;
    storeStrips(sums);
    emitter.closeScope();
    return {};
  };
  t.loop(t.block(), t.i32(tiles), t.i32(blocks), {}, body);
}

void TiledGemmKernel::storeStrips(ValueRange accumulators) {
  ThreadBuilder t = kernel.code();
  IndexMath &math = kernel.math;
  Value group = t.div(t.lane(), 4), quad = t.rem(t.lane(), 4);
  int64_t columnTiles = tile.warpColumns / kMmaColumns;
  bool hasRowTail = !p.rows.isMultipleOf(tile.rows);
  bool hasColumnTail = !p.columns.isMultipleOf(tile.columns);
  SmallVector<ResultStrip> strips;
  for (int64_t part = 0; part < tile.warpColumns / kStripColumns; ++part) {
    Value column = t.add(at.column, t.add(warpColumn, part * kStripColumns));
    column = t.add(column, t.mul(quad, kLaneStrip));
    Value isInside;
    if (hasColumnTail) {
      isInside = t.isLess(column, at.columnCount);
      // What follows may read there.
      column = t.min(column, t.sub(at.columnCount, t.i32(kLaneStrip)));
    }
    Index columnIndex = math.fromWord(column, kLaneStrip);
    for (int64_t rows = 0; rows < tile.warpRows; rows += kMmaRows / 2) {
      Value row = t.add(at.row, t.add(t.add(warpRow, group), rows));
      ResultStrip strip;
      strip.isStored = isInside;
      if (hasRowTail) {
        Value isRow = t.isLess(row, at.rowCount);
        strip.isStored = isInside ? t.bitAnd(isInside, isRow) : isRow;
        row = t.min(row, t.sub(at.rowCount, t.i32(1)));
      }
      int64_t below = rows % kMmaRows / (kMmaRows / 2);
      int64_t first = rows / kMmaRows * columnTiles + part * kStripColumns / kMmaColumns;
      for (int64_t tiles = 0; tiles < kStripColumns / kMmaColumns; ++tiles) {
        llvm::append_range(strip.accumulators,
                           accumulators.slice((first + tiles) * 4 + below * 2, 2));
      }
      strip.place = placeOf(math.fromWord(row), columnIndex, strip.linear);
      strips.push_back(strip);
    }
  }
  storeThroughEpilogue(emitter, tensors, strips);
}

/// One unit of the tile: `width` neighbours in a row, which all are inside the matrix or all
/// outside.
void TiledGemmKernel::storeUnit(Value unit, int64_t width) {
  ThreadBuilder t = kernel.code();
  int64_t across = tile.columns / width;
  Value tileRow = t.div(unit, across), tileColumn = t.mul(t.rem(unit, across), width);
  Value row = t.add(at.row, tileRow), column = t.add(at.column, tileColumn);
  Value inside = t.bitAnd(t.isLess(row, at.rowCount), t.isLess(column, at.columnCount));
  int64_t units = tile.rows * across, share = (units + tile.splits - 1) / tile.splits;
  if (share % tile.threads() != 0 || units % tile.splits != 0) {
    Value end = t.min(t.i32(units), t.mul(t.add(rank, 1), share));
    inside = t.bitAnd(inside, t.isLess(unit, end));
  }
  emitter.when(inside, [&] {
    ResultStrip strip;
    strip.accumulators = totalOf(t, tileRow, tileColumn, width);
    IndexMath &math = kernel.math;
    strip.place = placeOf(math.fromWord(row), math.fromWord(column, width), strip.linear);
    storeThroughEpilogue(emitter, tensors, strip);
  });
}

void TiledGemmKernel::storeResult() {
  ThreadBuilder t = kernel.code();
  std::optional<int64_t> columns = tn::constantDim(p.columns);
  int64_t width = columns ? std::gcd<int64_t>(*columns, 8) : 1;
  int64_t units = tile.rows * tile.columns / width;
  int64_t share = (units + tile.splits - 1) / tile.splits;
  Value first = t.add(t.mul(rank, share), at.thread);
  for (int64_t unit = 0; unit < share; unit += tile.threads()) {
    storeUnit(t.add(first, unit), width);
  }
}

bool TiledGemmKernel::emit() {
  std::optional<GemmTensors> found = productTensors(kernel.region);
  if (!found) {
    return false;
  }
  tensors = *found;
  if (tile.splits > 1) {
    kernel.setCluster(tile.splits);
  }
  if (!tile.isSimt && element.isF32()) {
    // ptxas by itself spills a word to have room for more blocks.
    kernel.setMinBlocksPerSm(1);
  }
  b->isInOrderOfLanes = storesFromRegisters();
  if (blocksAtOnce() > 0) {
    kernel.setMinBlocksPerSm(static_cast<int>(blocksPerSm()));
  }
  place();
  if (tile.isSimt) {
    shareSimtSums(addSimtProducts());
    storeResult();
  } else {
    startProducts();
    if (int64_t blocks = blocksAtOnce()) {
      goThroughTiles(*tileCount(), blocks);
    } else if (storesFromRegisters()) {
      storeStrips(addProducts());
    } else {
      shareSums(addProducts());
      storeResult();
    }
  }
  if (tile.splits > 1) {
    // No block ends while another one reads its memory.
    clusterBarrier();
  }
  AffineExpr blocks = p.rows.ceilDiv(tile.rows) * p.columns.ceilDiv(tile.columns) * tile.splits;
  for (AffineExpr size : p.batch) {
    blocks = blocks * size;
  }
  if (int64_t atOnce = blocksAtOnce()) {
    blocks = getAffineConstantExpr(atOnce, blocks.getContext());
  }
  kernel.finish(blocks, sharedBytes());
  return !emitter.hasFailed();
}

} // namespace tenon::codegen::cuda
