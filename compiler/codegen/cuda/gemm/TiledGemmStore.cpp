// From the warps' accumulators to the result: through shared memory, where the blocks of a cluster
// add up their parts, and through the region's elementwise ops. Relies on the region's linalg form.
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"
#include "compiler/codegen/cuda/gemm/IntegerSums.h"
#include "compiler/codegen/cuda/gemm/TiledGemmKernel.h"

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
    Index rowIndex = math.fromWord(row), columnIndex = math.fromWord(column, width);
    if (p.isGrouped) {
      columnIndex =
          math.add(math.multiply(math.fromWord(at.batch), kernel.size(p.columns)), columnIndex);
      strip.place = math.delinearize(rowIndex, kernel.sizes(p.rowDims));
      strip.linear = math.multiply(rowIndex, kernel.size(p.columns * p.batch.front()));
    } else {
      strip.place = math.delinearize(math.fromWord(at.batch), kernel.sizes(p.batch));
      llvm::append_range(strip.place, math.delinearize(rowIndex, kernel.sizes(p.rowDims)));
      strip.linear =
          math.add(math.multiply(math.fromWord(at.batch), kernel.size(p.rows)), rowIndex);
      strip.linear = math.multiply(strip.linear, kernel.size(p.columns));
    }
    strip.linear = math.add(strip.linear, columnIndex);
    strip.place.push_back(columnIndex);
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
  place();
  if (tile.isSimt) {
    shareSimtSums(addSimtProducts());
  } else {
    shareSums(addProducts());
  }
  storeResult();
  if (tile.splits > 1) {
    // No block ends while another one reads its memory.
    clusterBarrier();
  }
  AffineExpr blocks = p.rows.ceilDiv(tile.rows) * p.columns.ceilDiv(tile.columns) * tile.splits;
  for (AffineExpr size : p.batch) {
    blocks = blocks * size;
  }
  kernel.finish(blocks, sharedBytes());
  return !emitter.hasFailed();
}

} // namespace tenon::codegen::cuda
